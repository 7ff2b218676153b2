//! Where the queue's tables live, and how statement texts are written for a chosen name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

const DEFAULT: &str = "leasehold";

/// The name under which the queue's tables live: a schema of its own on PostgreSQL (`leasehold.jobs`), a prefix on
/// SQLite (`leasehold_jobs`).
///
/// The default name is `leasehold`. Another one lets two applications share a database.
///
/// ```
/// use leasehold::Schema;
///
/// let schema = Schema::named("billing_jobs")?;
/// assert_eq!(schema.name(), "billing_jobs");
/// assert!(Schema::named("billing; drop table users").is_err());
/// # Ok::<(), leasehold::error::SchemaNameError>(())
/// ```
#[derive(Clone, Default)]
pub struct Schema {
    /// `None` is the default name, for which texts stay as they are written.
    named: Option<Arc<Named>>,
}

struct Named {
    name: String,
    /// Rendered texts by the place of the constant, so that each is rendered once.
    texts: Mutex<HashMap<(usize, usize), &'static str>>,
}

/// One for each name for as long as the process lives, so that a name which is given again and again leaks its texts once.
static NAMED: LazyLock<Mutex<HashMap<String, Arc<Named>>>> = LazyLock::new(Mutex::default);

/// A schema name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a schema: use 1 to 32 characters from a-z, 0-9 and _, beginning with a letter, but not with pg_"
)]
pub struct SchemaNameError(String);

impl Schema {
    /// Chooses a name: 1 to 32 characters from `a-z`, `0-9` and `_`, beginning with a letter, but not with `pg_`.
    ///
    /// # Errors
    ///
    /// [`SchemaNameError`] for any other name. Names are never quoted into SQL, so nothing else can be allowed.
    pub fn named(name: &str) -> Result<Self, SchemaNameError> {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let valid = (1..=32).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(letters)
            && !name.starts_with("pg_");
        if !valid {
            return Err(SchemaNameError(name.to_owned()));
        }
        if name == DEFAULT {
            return Ok(Self::default());
        }
        let mut all = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        let named = all.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Named {
                name: name.to_owned(),
                texts: Mutex::default(),
            })
        });
        Ok(Self {
            named: Some(Arc::clone(named)),
        })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.named.as_ref().map_or(DEFAULT, |named| &named.name)
    }

    /// The text of a statement for this schema. Texts are written for the default name: `leasehold.jobs` on PostgreSQL,
    /// `leasehold_jobs` on SQLite, `'leasehold'` for the name itself.
    pub(crate) fn render(&self, text: &'static str) -> &'static str {
        let Some(named) = &self.named else { return text };
        let mut texts = named.texts.lock().unwrap_or_else(PoisonError::into_inner);
        // Leaked on purpose: a fixed number of texts per schema name, and Diesel wants them as long as its cache.
        texts
            .entry((text.as_ptr() as usize, text.len()))
            .or_insert_with(|| Box::leak(self.render_once(text).into_owned().into_boxed_str()))
    }

    /// As [`Schema::render`], for texts that are used once (migrations).
    pub(crate) fn render_once<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(named) = &self.named else {
            return Cow::Borrowed(text);
        };
        let name = &named.name;
        // The prefix first: nothing that it puts in has a dot or a quote, but a chosen name may begin with `leasehold_`.
        Cow::Owned(
            text.replace("leasehold_", &format!("{name}_"))
                .replace("leasehold.", &format!("\"{name}\"."))
                .replace("'leasehold'", &format!("'{name}'")),
        )
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.name()).finish()
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Schema {}
