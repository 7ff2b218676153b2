//! The derive macro of leasehold.
