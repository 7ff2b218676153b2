//! What must not compile, and what the compiler then says: mistakes in a derive, and every way round the guard. The
//! expected texts are those of the pinned compiler; after a change that is meant,
//! `TRYBUILD=overwrite ./test -p leasehold-tests --test ui` writes them anew.

#[test]
fn mistakes_are_refused_with_the_message_beside_them() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*.rs");
    // Their messages name both backends.
    #[cfg(feature = "postgres")]
    cases.compile_fail("ui/postgres/*.rs");
    cases.pass("ui/pass/*.rs");
}
