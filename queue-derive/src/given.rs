//! One option, `key = value` or `key(…)`: how it is written, whatever it means.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, ExprPath, ExprUnary, Lit, LitStr, Path, Token, UnOp, parenthesized, token};

use crate::attr::FORMS;
use crate::backoff::GivenBackoff;
use crate::errors::Errors;
use crate::schedule;
use crate::unique::{self, GivenUnique};

/// One option as it is written.
pub(crate) struct Given {
    pub(crate) key: Ident,
    value: Value,
}

#[allow(
    clippy::large_enum_variant,
    reason = "it is not, but where tests ask for the places of spans"
)]
enum Value {
    /// `key`
    None,
    /// `key` and something behind it that is no `=`
    Malformed,
    /// `key = expression`
    Expr(Expr),
    /// `key = …`, and no expression that an option could take.
    Other(TokenStream),
    /// `key(…)`
    List(TokenStream),
}

/// A whole number and where it is written. One that is too large or too small for `i64` is at the end of its range,
/// which is outside every option's.
pub(crate) struct Number {
    pub(crate) value: i64,
    pub(crate) at: Expr,
}

impl Given {
    pub(crate) fn text(self, errors: &mut Errors) -> Option<LitStr> {
        let form = self.form();
        self.text_as(form, errors)
    }

    pub(crate) fn backoff(self, errors: &mut Errors) -> Option<GivenBackoff> {
        match (self.value.literal(), &self.value) {
            (Some(Lit::Str(text)), _) => Some(GivenBackoff::Text(text.clone())),
            (_, Value::Expr(Expr::Path(path))) => Some(GivenBackoff::Function(path.clone())),
            _ => self.wrong("text in quotes or the path of a function", errors),
        }
    }

    pub(crate) fn number(self, errors: &mut Errors) -> Option<Number> {
        let form = self.form();
        self.number_as(form, errors)
    }

    /// Its right form, by its key.
    pub(crate) fn form(&self) -> &'static str {
        FORMS
            .iter()
            .chain(&schedule::FORMS)
            .chain(&unique::FORMS)
            .find(|(name, _)| self.key == name)
            .map_or("", |(_, form)| form)
    }

    /// Text, in an option whose right form is `form`.
    pub(crate) fn text_as(self, form: &str, errors: &mut Errors) -> Option<LitStr> {
        match self.value.literal() {
            Some(Lit::Str(text)) => Some(text.clone()),
            _ => self.wrong_as(form, "text in quotes", errors),
        }
    }

    /// A whole number, in an option whose right form is `form`.
    pub(crate) fn number_as(self, form: &str, errors: &mut Errors) -> Option<Number> {
        let (at, number, negative) = match &self.value {
            Value::Expr(
                at @ Expr::Unary(ExprUnary {
                    op: UnOp::Neg(_), expr, ..
                }),
            ) => (at, &**expr, true),
            Value::Expr(at) => (at, at, false),
            _ => return self.wrong_as(form, "a whole number", errors),
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Int(number), ..
        }) = number
        else {
            return self.wrong_as(form, "a whole number", errors);
        };
        if !number.suffix().is_empty() {
            return self.wrong_as(form, "a whole number without a suffix", errors);
        }
        let (sign, outside) = if negative { ("-", i64::MIN) } else { ("", i64::MAX) };
        let value = format!("{sign}{number}", number = number.base10_digits())
            .parse()
            .unwrap_or(outside);
        Some(Number { value, at: at.clone() })
    }

    pub(crate) fn path(self, errors: &mut Errors) -> Option<ExprPath> {
        match self.value {
            Value::Expr(Expr::Path(path)) => Some(path),
            _ => self.wrong("the path of a function", errors),
        }
    }

    pub(crate) fn krate(self, errors: &mut Errors) -> Option<Path> {
        let path = match (&self.value, self.value.literal()) {
            (Value::Expr(Expr::Path(ExprPath { qself: None, path, .. })), _) => Some(path.clone()),
            (_, Some(Lit::Str(text))) => text.parse_with(Path::parse_mod_style).ok(),
            _ => None,
        };
        path.or_else(|| self.wrong("the path of the crate", errors))
    }

    /// The options of `unique`, of which there may be none.
    pub(crate) fn unique(self, errors: &mut Errors) -> Option<GivenUnique> {
        match self.value {
            Value::None => Some(GivenUnique::default()),
            Value::List(tokens) => Some(GivenUnique::of(options(tokens, errors), errors)),
            _ => self.wrong("options in parentheses or none", errors),
        }
    }

    /// Whether an option that takes no value is there.
    pub(crate) fn flag(self, errors: &mut Errors) -> bool {
        match self.value {
            Value::None => true,
            _ => self.wrong("no value", errors).unwrap_or_default(),
        }
    }

    /// The options of `schedule(…)`, and where it is written.
    pub(crate) fn list(self, errors: &mut Errors) -> Option<(Ident, Vec<Given>)> {
        match &self.value {
            Value::List(tokens) if !tokens.is_empty() => Some((self.key.clone(), options(tokens.clone(), errors))),
            _ => self.wrong("when it enqueues itself", errors),
        }
    }

    /// The options of a limit, of which there may be none if it `may_be_bare`.
    pub(crate) fn inner(self, may_be_bare: bool, expected: &str, errors: &mut Errors) -> Option<Vec<Given>> {
        match &self.value {
            Value::List(tokens) if !tokens.is_empty() => Some(options(tokens.clone(), errors)),
            Value::None if may_be_bare => Some(Vec::new()),
            _ => self.wrong(expected, errors),
        }
    }

    fn wrong<T>(&self, expected: &str, errors: &mut Errors) -> Option<T> {
        self.wrong_as(self.form(), expected, errors)
    }

    fn wrong_as<T>(&self, form: &str, expected: &str, errors: &mut Errors) -> Option<T> {
        errors.push(
            self.value.at(&self.key),
            format_args!("expected {expected}, as in `{form}`"),
        );
        None
    }
}

impl Value {
    fn literal(&self) -> Option<&Lit> {
        match self {
            Self::Expr(Expr::Lit(literal)) => Some(&literal.lit),
            _ => None,
        }
    }

    /// What a message about the value points at; the key, if there is nothing else.
    fn at(&self, key: &Ident) -> TokenStream {
        match self {
            Self::Expr(value) => quote!(#value),
            Self::Other(value) if !value.is_empty() => quote!(#value),
            Self::None | Self::Malformed | Self::Other(_) | Self::List(_) => quote!(#key),
        }
    }
}

/// The options of a list. One that is malformed is reported and passed over, so that the mistakes after it show too.
pub(crate) fn options(tokens: TokenStream, errors: &mut Errors) -> Vec<Given> {
    let parser = |input: ParseStream| {
        let mut options = Vec::new();
        while !input.is_empty() {
            match option(input) {
                Ok(option) => options.push(option),
                Err(error) => {
                    errors.push_error(error);
                    take_until(input, ends);
                }
            }
            if !input.is_empty() && input.parse::<Token![,]>().is_err() {
                errors.push_error(input.error("expected `,` before the next option"));
            }
        }
        Ok(options)
    };
    // The parser takes every token and keeps its errors to itself, so there is none left to report.
    parser.parse2(tokens).unwrap_or_default()
}

fn option(input: ParseStream) -> syn::Result<Given> {
    if !input.peek(syn::Ident::peek_any) {
        return Err(input.error("expected an option, as in `kind = \"send-email\"`"));
    }
    let key = input.call(Ident::parse_any)?;
    let value = if input.peek(token::Paren) {
        let list;
        parenthesized!(list in input);
        Value::List(list.parse()?)
    } else if input.parse::<Option<Token![=]>>()?.is_some() {
        value(input)
    } else {
        match take_until(input, ends).is_empty() {
            true => Value::None,
            false => Value::Malformed,
        }
    };
    Ok(Given { key, value })
}

fn value(input: ParseStream) -> Value {
    let ahead = input.fork();
    match ahead.parse::<Expr>() {
        Ok(expr) if ends(&ahead) || option_begins(&ahead) => {
            input.advance_to(&ahead);
            Value::Expr(ungrouped(expr))
        }
        // Something like `|from, old| …` has commas of its own.
        _ => Value::Other(take_until(input, next_option)),
    }
}

fn take_until(input: ParseStream, end: fn(ParseStream) -> bool) -> TokenStream {
    let mut taken = TokenStream::new();
    while !input.is_empty() && !end(input) {
        match input.parse::<TokenTree>() {
            Ok(token) => token.to_tokens(&mut taken),
            Err(_) => break,
        }
    }
    taken
}

fn ends(input: ParseStream) -> bool {
    input.is_empty() || input.peek(Token![,])
}

fn option_begins(input: ParseStream) -> bool {
    input.peek(syn::Ident::peek_any) && (input.peek2(Token![=]) || input.peek2(token::Paren))
}

/// At a comma with another option, or nothing, behind it.
fn next_option(input: ParseStream) -> bool {
    let ahead = input.fork();
    ahead.parse::<Token![,]>().is_ok()
        && (ends(&ahead) || option_begins(&ahead) || (ahead.call(Ident::parse_any).is_ok() && ends(&ahead)))
}

/// A value that came through a `macro_rules!` variable is in a group without delimiters.
fn ungrouped(mut expr: Expr) -> Expr {
    while let Expr::Group(group) = expr {
        expr = *group.expr;
    }
    expr
}
