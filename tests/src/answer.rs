//! The rows of [`TestDb`](crate::TestDb)'s queries.

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Nullable, Text};

#[derive(QueryableByName)]
pub(crate) struct Integer {
    #[diesel(sql_type = BigInt)]
    pub(crate) value: i64,
}

#[derive(QueryableByName)]
pub(crate) struct OptionalText {
    #[diesel(sql_type = Nullable<Text>)]
    pub(crate) value: Option<String>,
}
