//! The form for the token.

use maud::{Markup, html};

use crate::page::{Look, frame};
use crate::texts;

/// `by_token` is false where the program itself says who its visitors are.
pub(crate) fn page(look: &Look<'_>, by_token: bool, wrong: bool) -> Markup {
    let content = html! {
        @if wrong { p role="alert" { (texts::WRONG_TOKEN) } }
        @if by_token {
            form.fields method="post" action=(look.to("/login")) {
                label { (texts::TOKEN) input type="password" name="token" required autocomplete="current-password"; }
                label { (texts::WHO) input name="who" maxlength="100" autocomplete="name"; }
                button { (texts::LOG_IN) }
            }
        } @else {
            p role="alert" { (texts::DENIED_UNKNOWN) }
        }
    };
    frame(look, texts::LOG_IN, &content)
}
