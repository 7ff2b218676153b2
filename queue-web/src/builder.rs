//! What a site is told before it answers.

use std::fmt;
use std::sync::Arc;

use diesel::r2d2::{ConnectionManager, Pool};
use http::request::Parts;
use leasehold::{Backend, Schema};

use crate::data::{Database, Source};
use crate::guard::{Guard, Hook};
use crate::session::{Key, Over, Token};
use crate::site::Site;

/// A token that can be guessed protects nothing.
const SHORTEST_TOKEN: usize = 16;

/// What was given cannot make a site.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A token of fewer than 16 bytes.
    #[error("the token has {bytes} bytes and could be guessed: give at least 16, such as 32 random hexadecimal digits")]
    ShortToken {
        /// Its length.
        bytes: usize,
    },
    /// A path to mount the site under that is none.
    #[error("a site cannot be mounted under {path:?}: give a path such as `/queue`, of letters, digits and -._~/")]
    Path {
        /// What was given.
        path: String,
    },
}

/// Builds a [`Site`]; see there.
#[derive(Clone, Default)]
#[must_use = "a site is made by `open` or `with_pool`"]
pub struct SiteBuilder {
    pub(crate) schema: Schema,
    pub(crate) base: String,
    pub(crate) payloads: bool,
    token: Option<String>,
    hook: Option<Hook>,
    hosts: Vec<String>,
    secure: bool,
}

impl SiteBuilder {
    /// Shows another schema than `leasehold`.
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.schema = schema.clone();
        self
    }

    /// The path that the site is mounted under, such as `/queue`: its links begin with it, and so do the paths that it is
    /// asked for. Default: none.
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.base = path.into().trim_end_matches('/').to_owned();
        self
    }

    /// Whoever has this token may look and act: by the form that is shown then, or by a header
    /// `Authorization: Bearer <token>`. At least 16 bytes.
    ///
    /// A session lasts for twelve hours. It ends when its visitor logs out, as far as the process that was told goes, and
    /// everywhere when the token is changed.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Whom the function names may look and act: it reads a request's head, such as the cookie of the program's own
    /// session, or a header that a proxy has set. For `None` the request is refused.
    ///
    /// The name is recorded with what was done by hand.
    pub fn authenticate(mut self, hook: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Another name by which browsers may ask for the site, without the port: `queue.example.com`.
    ///
    /// Without a token or a function, only the names of this machine itself are answered. Else a page of anybody could have its
    /// own name point here, and read in the visitor's browser what is meant for this machine alone.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// The site is reached by HTTPS only, so its cookies are sent by nothing else.
    pub fn https_only(mut self) -> Self {
        self.secure = true;
        self
    }

    /// Shows the payloads of jobs and schedules, and the results of jobs and steps. They may hold secrets.
    pub fn show_payloads(mut self) -> Self {
        self.payloads = true;
        self
    }

    /// Shows the queue of a database, by a small pool of connections of its own, which is filled when it is first needed. Whether
    /// the database can be reached is not asked before.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: the token is too short, or the path to mount the site under is none.
    pub fn open<C: Backend>(self, url: &str) -> Result<Site, BuildError> {
        let database = Database::<C>::open(url, &self.schema);
        self.build(Box::new(database))
    }

    /// Shows the queue by the program's own connections. It takes one for a request at the most. On SQLite they should
    /// have a `busy_timeout`.
    ///
    /// # Errors
    ///
    /// As [`SiteBuilder::open`].
    pub fn with_pool<C: Backend>(self, pool: Pool<ConnectionManager<C>>) -> Result<Site, BuildError> {
        let database = Database::with_pool(pool, &self.schema);
        self.build(Box::new(database))
    }

    fn build(self, source: Box<dyn Source>) -> Result<Site, BuildError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
        if !(self.base.is_empty()
            || self.base.starts_with('/') && !self.base.contains("//") && self.base.chars().all(plain))
        {
            return Err(BuildError::Path { path: self.base });
        }
        let bytes = self.token.as_deref().map(str::len);
        if let Some(bytes) = bytes.filter(|bytes| *bytes < SHORTEST_TOKEN) {
            return Err(BuildError::ShortToken { bytes });
        }
        let guard = Guard {
            key: self.token.as_deref().map_or_else(Key::random, Key::of_token),
            check_hosts: self.token.is_none() && self.hook.is_none() || !self.hosts.is_empty(),
            token: self.token.as_deref().map(Token::new),
            hook: self.hook,
            hosts: self.hosts,
            secure: self.secure,
            base: self.base.clone(),
            over: Over::default(),
        };
        Ok(Site::new(source, guard, self.base, self.payloads))
    }
}

impl fmt::Debug for SiteBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteBuilder")
            .field("schema", &self.schema)
            .field("under", &self.base)
            .field("token", &self.token.as_ref().map(|_| ".."))
            .field("show_payloads", &self.payloads)
            .finish_non_exhaustive()
    }
}
