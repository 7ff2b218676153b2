//! Collects mistakes, so that one build shows them all.

use std::fmt::Display;

use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors {
    combined: Option<syn::Error>,
}

impl Errors {
    /// Adds a mistake under the given tokens.
    pub(crate) fn push(&mut self, at: impl ToTokens, message: impl Display) {
        self.push_error(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn push_error(&mut self, error: syn::Error) {
        match &mut self.combined {
            Some(combined) => combined.combine(error),
            None => self.combined = Some(error),
        }
    }

    /// All of them as one, or `None` if there was none.
    pub(crate) fn take(&mut self) -> Option<syn::Error> {
        self.combined.take()
    }
}
