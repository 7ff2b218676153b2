//! Who does it.

use clap::Args;

/// Whoever looks later wants to know whom to ask.
#[derive(Debug, Args)]
pub(crate) struct By {
    /// Who does it, kept with what is done; `user@host` if it is not given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl By {
    pub(crate) fn name(&self) -> String {
        self.by.clone().unwrap_or_else(|| {
            let host = whoami::fallible::hostname().unwrap_or_else(|_| "unknown".to_owned());
            format!("{}@{host}", whoami::username())
        })
    }
}
