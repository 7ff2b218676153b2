//! What the tables look like, for a comparison with what the migrations make.

use diesel::QueryableByName;
use diesel::result::QueryResult;
use diesel::sql_types::Text;

use crate::schema::Schema;

/// Something in a schema.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName)]
pub struct CatalogueRow {
    /// `table`, `column`, `constraint`, `index`, `function` or `trigger`.
    #[diesel(sql_type = Text)]
    pub what: String,
    /// That of its table, a dot and its own; for a table or a function its own alone.
    #[diesel(sql_type = Text)]
    pub name: String,
    /// What it is, in the server's words; but for functions the schema is called by its default name.
    #[diesel(sql_type = Text)]
    pub definition: String,
}

impl CatalogueRow {
    /// The table of which it is a part.
    pub(crate) fn table(&self) -> Option<&str> {
        Some(self.name.split_once('.')?.0)
    }
}

pub trait CatalogueStatements: Sized {
    /// What is there.
    fn catalogue(&mut self, schema: &Schema) -> QueryResult<Vec<CatalogueRow>>;

    /// What all migrations of this program make.
    fn made_by_migrations(schema: &Schema) -> QueryResult<Vec<CatalogueRow>>;
}
