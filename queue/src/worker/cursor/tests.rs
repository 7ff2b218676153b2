use super::*;

const MS: Duration = Duration::from_millis(1);

fn served(kind: &str) -> Served {
    Served {
        queue: "default".to_owned(),
        kind: kind.to_owned(),
        version: 1,
    }
}

fn row(kind: &str, priority: i16, run_at: i64, id: i64) -> ClaimedRow {
    ClaimedRow {
        id,
        queue: "default".to_owned(),
        kind: kind.to_owned(),
        version: 1,
        payload: String::new(),
        attempt: 1,
        max_attempts: 1,
        generation: 1,
        lease_ms: 1,
        idempotency_key: String::new(),
        priority,
        run_at,
        waited_ms: 0,
        expires_in_ms: None,
        limit_key: None,
        batch_id: None,
        awaited: false,
    }
}

fn cursor() -> (Cursor, Instant) {
    let cursor = Cursor::new(&[served("a")]);
    let begin = cursor.look_at;
    (cursor, begin)
}

/// Two looks that cost this, the last of them now.
fn looks(cursor: &mut Cursor, now: Instant, cost: Duration) {
    cursor.looked(now, cost);
    cursor.looked(now, cost);
}

#[test]
fn the_first_claim_looks_at_everything() {
    let (cursor, begin) = cursor();
    assert!(cursor.is_due(begin));
    assert_eq!(cursor.places(), [Place::FRONT]);
}

#[test]
fn cheap_looks_are_due_every_fifty_milliseconds_and_there_at_once_for_a_reason() {
    let (mut cursor, begin) = cursor();
    looks(&mut cursor, begin, MS);
    assert!(!cursor.is_due(begin + 49 * MS) && cursor.is_due(begin + 50 * MS));
    assert!(cursor.may_look(begin));
}

#[test]
fn dear_looks_take_a_twentieth_of_the_time_and_no_reason_makes_them_more() {
    let (mut cursor, begin) = cursor();
    looks(&mut cursor, begin, 100 * MS);
    assert!(!cursor.may_look(begin + 1999 * MS) && !cursor.is_due(begin + 1999 * MS));
    assert!(cursor.may_look(begin + 2000 * MS) && cursor.is_due(begin + 2000 * MS));
}

#[test]
fn a_look_is_due_within_a_minute_whatever_it_costs() {
    for cost in [Duration::from_secs(4), Duration::from_secs(3600), Duration::MAX] {
        let (mut cursor, begin) = cursor();
        looks(&mut cursor, begin, cost);
        assert!(!cursor.is_due(begin + 59_999 * MS), "{cost:?}");
        assert!(cursor.is_due(begin + 60_000 * MS), "{cost:?}");
    }
}

#[test]
fn one_slow_look_is_not_taken_for_a_dear_one_and_two_are() {
    let (mut cursor, begin) = cursor();
    looks(&mut cursor, begin, MS);
    cursor.looked(begin, 1000 * MS);
    assert!(cursor.may_look(begin) && cursor.is_due(begin + 50 * MS));
    cursor.looked(begin, 1000 * MS);
    assert!(!cursor.may_look(begin) && !cursor.is_due(begin + 19_999 * MS));
    cursor.looked(begin, MS);
    assert!(cursor.may_look(begin), "one cheap look is enough to know that they are");
}

#[test]
fn what_any_claim_takes_is_not_counted_as_the_cost_of_a_look() {
    let (mut cursor, begin) = cursor();
    (0..100).for_each(|_| cursor.found_from_places(1, 100 * MS));
    looks(&mut cursor, begin, 105 * MS);
    assert!(cursor.may_look(begin));
}

#[test]
fn what_follows_on_a_look_in_vain_counts_as_part_of_it() {
    let (mut cursor, begin) = cursor();
    for _ in 0..2 {
        cursor.looked(begin, MS);
        cursor.looked_further(begin, 99 * MS);
    }
    assert!(!cursor.may_look(begin + 1999 * MS) && cursor.is_due(begin + 2000 * MS));
    cursor.looked_further(begin, Duration::MAX);
    assert!(cursor.is_due(begin + 60_000 * MS));
}

#[test]
fn after_a_claim_in_vain_nothing_is_known_until_the_next_look() {
    let (mut cursor, begin) = cursor();
    looks(&mut cursor, begin, 100 * MS);
    assert_eq!(cursor.unknown_for(begin), None);
    cursor.found_from_places(0, MS);
    assert_eq!(cursor.unknown_for(begin + 500 * MS), Some(1500 * MS));
    assert_eq!(cursor.unknown_for(begin + 5000 * MS), Some(Duration::ZERO));
    cursor.found_from_places(1, MS);
    assert_eq!(cursor.unknown_for(begin), None);
    cursor.found_from_places(0, MS);
    cursor.looked(begin, 100 * MS);
    assert_eq!(cursor.unknown_for(begin), None);
}

#[test]
fn what_is_unknown_of_several_is_looked_at_when_the_first_may_be() {
    let (mut dear, begin) = cursor();
    let (mut cheaper, _) = cursor();
    let (known, _) = cursor();
    looks(&mut dear, begin, 1000 * MS);
    looks(&mut cheaper, begin, 100 * MS);
    assert_eq!(unknown_for(&[], begin), None);
    dear.found_from_places(0, MS);
    cheaper.found_from_places(0, MS);
    assert_eq!(unknown_for(&[dear, known, cheaper], begin), Some(2000 * MS));
}

/// Where claims begin that take a millisecond each, a look so much more.
fn starts(cost: Duration, behind: bool, claims: u32) -> Vec<Start> {
    let (mut cursor, begin) = cursor();
    let mut now = begin;
    let claim = |_| {
        let start = cursor.start(now, behind);
        cursor.begins(start);
        now += MS;
        match start {
            Start::Cursor => cursor.found_from_places(1, MS),
            Start::Front | Start::Oldest => cursor.looked(now, MS + cost),
        }
        start
    };
    (0..claims).map(claim).collect()
}

fn count(starts: &[Start], start: Start) -> usize {
    starts.iter().filter(|one| **one == start).count()
}

#[test]
fn quick_claims_begin_at_the_front_and_with_the_oldest_again_and_again() {
    for behind in [false, true] {
        let starts = starts(Duration::ZERO, behind, 1000);
        for moment in starts.chunks(100) {
            assert!(
                count(moment, Start::Front) > 0 && count(moment, Start::Oldest) > 0,
                "{moment:?}"
            );
        }
    }
}

#[test]
fn dear_looks_begin_at_the_front_and_with_the_oldest_by_turns() {
    for behind in [false, true] {
        let starts = starts(100 * MS, behind, 20_000);
        let looks: Vec<Start> = starts.into_iter().filter(|start| *start != Start::Cursor).collect();
        // The first ones are not known to be dear.
        assert!(looks.len() < 20, "{looks:?}");
        let dear = &looks[looks.len() - 8..];
        assert!(dear.windows(2).all(|two| two[0] != two[1]), "{looks:?}");
    }
}

#[test]
fn each_kind_goes_on_behind_the_last_of_its_own_and_back_to_what_a_look_found() {
    let serves = [served("a"), served("b")];
    let mut cursor = Cursor::new(&serves);
    // In no particular order, as the database gives them.
    cursor.claimed(&serves, &[row("a", 0, 7, 1), row("a", -1, 2, 3), row("a", 5, 9, 9)]);
    let last = row("a", -1, 2, 3).place();
    assert_eq!(cursor.places(), [last, Place::FRONT]);
    cursor.claimed(&serves, &[row("b", 0, 1, 4), row("c", 0, 1, 5)]);
    assert_eq!(cursor.places(), [last, row("b", 0, 1, 4).place()]);
    cursor.claimed(&serves, &[]);
    cursor.claimed(&serves, &[row("a", 9, 0, 6)]);
    assert_eq!(cursor.places(), [row("a", 9, 0, 6).place(), row("b", 0, 1, 4).place()]);
}

#[test]
fn a_higher_priority_an_earlier_time_and_a_smaller_id_come_first() {
    let order = [
        row("a", i16::MAX, 9, 9),
        row("a", 1, 1, 9),
        row("a", 1, 2, 1),
        row("a", 1, 2, 2),
        row("a", i16::MIN, i64::MIN, 0),
    ];
    assert!(order.iter().map(ClaimedRow::place).is_sorted());
    assert!(order.iter().all(|row| row.place() > Place::FRONT));
}
