//! Turns a checked model into tokens. Every path is absolute, so that no name of the caller can get in between.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, ExprPath, Path};

use crate::model::{Backoff, JobModel, Refused, UniqueField};

/// `allow(deprecated)` is for types and fields on their way out: to derive for one is not to use it.
pub(crate) fn job(model: &JobModel) -> TokenStream {
    let JobModel { krate, ident, kind, .. } = model;
    let queue = model
        .queue
        .as_ref()
        .map(|queue| quote!(const QUEUE: &'static ::core::primitive::str = #queue;));
    let version = model
        .version
        .map(|version| quote!(const VERSION: ::core::primitive::u32 = #version;));
    let priority = model
        .priority
        .map(|priority| quote!(const PRIORITY: ::core::primitive::i16 = #priority;));
    let max_attempts = model
        .max_attempts
        .map(|attempts| quote!(const MAX_ATTEMPTS: ::core::primitive::u32 = #attempts;));
    let lease = model.lease.map(|lease| {
        let lease = duration(lease);
        quote!(const LEASE: ::core::time::Duration = #lease;)
    });
    let timeout = model.timeout.map(|timeout| {
        let timeout = duration(timeout);
        quote! {
            const TIMEOUT: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#timeout);
        }
    });
    let backoff = model.backoff.as_ref().map(|shape| backoff(shape, krate));
    let unique_key = key("unique_key", &model.unique, krate);
    let limit = model.limit.as_ref().map(|limit| limit.constant(krate));
    let limit_key = model
        .limit
        .as_ref()
        .and_then(|limit| key("limit_key", &limit.by, krate));
    let migrate = model.migrate.as_ref().map(|path| migrate(path, krate));
    quote! {
        const _: () = {
            #[automatically_derived]
            #[allow(deprecated)]
            impl #krate::Job for #ident {
                const KIND: &'static ::core::primitive::str = #kind;
                #queue
                #version
                #priority
                #max_attempts
                #lease
                #timeout
                #backoff
                #unique_key
                #limit
                #limit_key
                #migrate
            }
        };
    }
}

/// The mistakes, and an implementation that keeps the uses of the type from being reported as well.
pub(crate) fn refused(input: &DeriveInput, refused: &Refused) -> TokenStream {
    let mistakes = refused.error.to_compile_error();
    // serde implements nothing for a union, so an implementation here would only add what it says already.
    if let Data::Union(_) = input.data {
        return mistakes;
    }
    let Refused { krate, kind, .. } = refused;
    let ident = &input.ident;
    let kind = kind.as_ref().map_or_else(|| quote!(""), |kind| quote!(#kind));
    let (parameters, arguments, conditions) = input.generics.split_for_impl();
    let conditions = if input.generics.params.is_empty() {
        quote!(#conditions)
    } else {
        let given = conditions
            .map(|conditions| &conditions.predicates)
            .filter(|given| !given.is_empty());
        let given = given.map(|given| {
            if given.trailing_punct() {
                quote!(#given)
            } else {
                quote!(#given,)
            }
        });
        quote! {
            where
                #given
                Self: #krate::__private::Serialize + #krate::__private::DeserializeOwned,
                Self: ::core::marker::Send + 'static
        }
    };
    quote! {
        #mistakes
        const _: () = {
            #[automatically_derived]
            #[allow(deprecated)]
            impl #parameters #krate::Job for #ident #arguments #conditions {
                const KIND: &'static ::core::primitive::str = #kind;
            }
        };
    }
}

fn duration(millis: u64) -> TokenStream {
    quote!(::core::time::Duration::from_millis(#millis))
}

fn backoff(shape: &Backoff, krate: &Path) -> TokenStream {
    let value = match *shape {
        Backoff::Fixed(wait) => {
            let wait = duration(wait);
            quote!(Fixed(#wait))
        }
        Backoff::Linear { step, max } => {
            let (step, max) = (duration(step), duration(max));
            quote!(Linear { step: #step, max: #max })
        }
        Backoff::Exponential { first, max } => {
            let (first, max) = (duration(first), duration(max));
            quote!(Exponential { first: #first, max: #max })
        }
    };
    quote!(const BACKOFF: #krate::Backoff = #krate::Backoff::#value;)
}

/// The function that makes a key of fields.
fn key(function: &str, fields: &[UniqueField], krate: &Path) -> Option<TokenStream> {
    if fields.is_empty() {
        return None;
    }
    let fields = fields.iter().map(|UniqueField { name, member, ty }| {
        let value = placed_at(quote!(#krate::__private::to_value(&self.#member)), ty.span());
        quote!((#name, #value))
    });
    let function = Ident::new(function, Span::call_site());
    Some(quote! {
        fn #function(&self) -> ::core::option::Option<#krate::__private::String> {
            ::core::option::Option::Some(#krate::__private::unique_key(&[#(#fields),*]))
        }
    })
}

/// The binding to a function pointer shows both signatures when the caller's does not fit.
fn migrate(path: &ExprPath, krate: &Path) -> TokenStream {
    // Underscores, since a pattern would take a constant of the caller's with the same name for a match on it.
    let local = |name| Ident::new(name, Span::mixed_site());
    let (from, payload, upgrade, error) = (
        local("__from"),
        local("__payload"),
        local("__upgrade"),
        local("__error"),
    );
    let text = placed_at(quote!(#krate::__private::ToString::to_string(&#error)), path.span());
    quote! {
        fn migrate(
            #from: ::core::primitive::u32,
            #payload: #krate::__private::Value,
        ) -> ::core::result::Result<#krate::__private::Value, #krate::__private::String> {
            let #upgrade: fn(
                ::core::primitive::u32,
                #krate::__private::Value,
            ) -> ::core::result::Result<#krate::__private::Value, _> = #path;
            ::core::result::Result::map_err(#upgrade(#from, #payload), |#error| #text)
        }
    }
}

/// The same tokens with the same meaning, but messages about them point at the place.
fn placed_at(tokens: TokenStream, place: Span) -> TokenStream {
    let placed = |token: TokenTree| {
        let span = token.span().located_at(place);
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), placed_at(group.stream(), place)).into(),
            other => other,
        };
        token.set_span(span);
        token
    };
    tokens.into_iter().map(placed).collect()
}
