//! What must not compile, and what the compiler then says. The expected texts are those of the pinned compiler; after a
//! change that is meant, `TRYBUILD=overwrite cargo test -p leasehold-tests --test ui` writes them anew.

#[test]
fn mistakes_are_refused_with_the_message_beside_them() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}
