//! Turns a checked model into tokens. Every path is absolute, so that no name of the caller can get in between.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, ExprPath, Path};

use crate::backoff::{Backoff, Shape};
use crate::model::{JobModel, Refused};
use crate::schedule::{Missed, Schedule};
use crate::unique::{Unique, UniqueField};

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
    let optional = |name: Ident, millis: Option<u64>| {
        let value = duration(millis?);
        Some(quote! {
            const #name: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#value);
        })
    };
    let timeout = optional(format_ident!("TIMEOUT"), model.timeout);
    let expires = optional(format_ident!("EXPIRES"), model.expires);
    let backoff = model.backoff.as_ref().map(|shape| backoff(shape, krate));
    let unique = model.unique.as_ref().and_then(|unique| unique_settings(unique, krate));
    let unique_key = model
        .unique
        .as_ref()
        .map(|unique| key("unique_key", &unique.fields, krate));
    let remember = model
        .idempotency_key
        .as_ref()
        .and_then(|key| key.remember)
        .map(|remember| {
            let remember = duration(remember);
            quote!(const REMEMBER_KEY: ::core::time::Duration = #remember;)
        });
    let idempotency_key = model.idempotency_key.as_ref().filter(|key| !key.fields.is_empty());
    let idempotency_key = idempotency_key.map(|key| idempotency(&key.fields, krate));
    let limit = model.limit.as_ref().map(|limit| limit.constant(krate));
    let limit_key = model.limit.as_ref().filter(|limit| !limit.by.is_empty());
    let limit_key = limit_key.map(|limit| key("limit_key", &limit.by, krate));
    let schedule = model.schedule.as_ref().map(|given| schedule(given, krate));
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
                #expires
                #backoff
                #unique
                #unique_key
                #remember
                #idempotency_key
                #limit
                #limit_key
                #schedule
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

fn backoff(backoff: &Backoff, krate: &Path) -> TokenStream {
    let value = match &backoff.shape {
        Shape::Fixed(wait) => {
            let wait = duration(*wait);
            quote!(fixed(#wait))
        }
        Shape::Linear { step, max } => {
            let (step, max) = (duration(*step), duration(*max));
            quote!(linear(#step, #max))
        }
        Shape::Exponential { first, max } => {
            let (first, max) = (duration(*first), duration(*max));
            quote!(exponential(#first, #max))
        }
        Shape::List(waits) => {
            let waits = waits.iter().copied().map(duration);
            quote!(list(&[#(#waits),*]))
        }
        Shape::Function(path) => quote!(function(#path)),
    };
    let jitter = Some(backoff.jitter)
        .filter(|percent| *percent > 0)
        .map(|percent| quote!(.jitter(#percent)));
    quote!(const BACKOFF: #krate::Backoff = #krate::Backoff::#value #jitter;)
}

/// The function that makes a key of fields.
fn key(function: &str, fields: &[UniqueField], krate: &Path) -> TokenStream {
    let fields = named(fields, krate);
    let function = format_ident!("{function}");
    quote! {
        fn #function(&self) -> ::core::option::Option<#krate::__private::String> {
            ::core::option::Option::Some(#krate::__private::unique_key(&[#(#fields),*]))
        }
    }
}

fn idempotency(fields: &[UniqueField], krate: &Path) -> TokenStream {
    let fields = named(fields, krate);
    quote! {
        fn idempotency_key(&self) -> ::core::option::Option<#krate::__private::String> {
            ::core::option::Option::Some(
                #krate::__private::idempotency_key(<Self as #krate::Job>::KIND, &[#(#fields),*])
            )
        }
    }
}

/// Each field's name and value.
fn named(fields: &[UniqueField], krate: &Path) -> impl Iterator<Item = TokenStream> {
    fields.iter().map(move |UniqueField { name, member, ty }| {
        let value = placed_at(quote!(#krate::__private::to_value(&self.#member)), ty.span());
        quote!((#name, #value))
    })
}

/// How long a key is kept, where the option says anything of it.
fn unique_settings(unique: &Unique, krate: &Path) -> Option<TokenStream> {
    let per_queue = unique.per_queue.then(|| quote!(.per_queue()));
    let states = unique.states.iter().map(|state| format_ident!("{state}"));
    let states = (!unique.states.is_empty()).then(|| quote!(.states(&[#(#krate::inspect::State::#states),*])));
    let within = unique.within.map(|period| {
        let period = duration(period);
        quote!(.within(#period))
    });
    let on_conflict = unique.on_conflict.map(|action| {
        let action = format_ident!("{action}");
        quote!(.on_conflict(#krate::OnConflict::#action))
    });
    let settings = quote!(#per_queue #states #within #on_conflict);
    (!settings.is_empty()).then(|| quote!(const UNIQUE: #krate::Unique = #krate::Unique::new() #settings;))
}

fn schedule(given: &Schedule, krate: &Path) -> TokenStream {
    let Schedule { at, cron, .. } = given;
    let name = given
        .name
        .as_ref()
        .map_or_else(|| quote!(<Self as #krate::Job>::KIND), |name| quote!(#name));
    let zone = given.zone.as_ref().map(|zone| quote!(.zone(#zone)));
    let missed = given.missed.as_ref().map(|missed| {
        let missed = match missed {
            Missed::Skip => quote!(Skip),
            Missed::RunOnce => quote!(RunOnce),
            Missed::RunAll(at_most) => quote!(RunAll { at_most: #at_most }),
        };
        quote!(.missed(#krate::schedule::Missed::#missed))
    });
    let local = Ident::new("__payload", Span::mixed_site());
    let payload = match &given.payload {
        Some(path) => placed_at(quote!(#path()), path.span()),
        None => placed_at(quote!(::core::default::Default::default()), at.span()),
    };
    quote! {
        fn schedule() -> ::core::option::Option<#krate::schedule::Schedule> {
            let #local: Self = #payload;
            ::core::option::Option::Some(#krate::schedule::Schedule::new(#name, #cron)#zone #missed.job(&#local))
        }
    }
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
