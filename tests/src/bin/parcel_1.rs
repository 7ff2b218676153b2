//! The older of two programs that run parcels: an address is one line.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod with_features {
    use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "parcel", backoff = "fixed(20ms)")]
    pub(super) struct Parcel {
        n: i64,
        address: String,
    }

    impl Parcel {
        pub(super) fn new(n: i64) -> Self {
            Self {
                n,
                address: "Main Street 1, Springfield".to_owned(),
            }
        }
    }

    impl<C: Backend> Handler<C> for Parcel {
        fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
            let town = self.address.rsplit(", ").next().unwrap_or_default();
            leasehold_tests::parcels::deliver(lease, self.n, 1, town)
        }
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
leasehold_tests::parcel_program!(with_features::Parcel, with_features::Parcel::new);

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn main() {}
