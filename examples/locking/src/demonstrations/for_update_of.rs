use crate::stage::{Demonstration, Played, Stage, notes};

pub(crate) const IT: Demonstration = Demonstration {
    name: "for_update_of",
    lesson: "FOR UPDATE OF locks the named table of a join, FOR UPDATE all of them",
    facts: "S2-11",
    play,
};

fn play(stage: &mut Stage<'_>) -> Played {
    let [mut a, mut b, mut c] = stage.opens(["A", "B", "C"])?;
    c.says("CREATE TABLE orders (id bigint PRIMARY KEY)")?;
    c.says("CREATE TABLE order_items (order_id bigint REFERENCES orders)")?;
    c.says("INSERT INTO orders VALUES (1)")?;
    c.says("INSERT INTO order_items VALUES (1)")?;
    let join = "SELECT o.id FROM orders AS o JOIN order_items AS i ON i.order_id = o.id FOR UPDATE";
    for (of, note) in [
        (" OF i", "With OF, the order stays free."),
        ("", "Without it, both are locked."),
    ] {
        notes(note);
        a.says("BEGIN")?;
        a.says(&format!("{join}{of}"))?;
        b.says("SELECT id FROM orders FOR UPDATE NOWAIT")?;
        b.says("SELECT order_id FROM order_items FOR UPDATE NOWAIT")?;
        a.says("ROLLBACK")?;
    }
    Ok(())
}
