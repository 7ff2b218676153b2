//! The newer of two programs that run parcels: an address has parts, and the older one is split into them.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod with_features {
    use leasehold::{Backend, Handler, Job, LeaseGuard, Outcome};
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "parcel", version = 2, migrate = split_address, backoff = "fixed(20ms)")]
    pub(super) struct Parcel {
        n: i64,
        street: String,
        town: String,
    }

    fn split_address(from: u32, mut payload: Value) -> Result<Value, String> {
        let address = payload["address"].as_str().ok_or("no address")?.to_owned();
        let (street, town) = address.rsplit_once(", ").ok_or("an address without a town")?;
        payload["street"] = street.into();
        payload["town"] = format!("{town} (from version {from})").into();
        Ok(payload)
    }

    impl Parcel {
        pub(super) fn new(n: i64) -> Self {
            Self {
                n,
                street: "Main Street 1".to_owned(),
                town: "Springfield".to_owned(),
            }
        }
    }

    impl<C: Backend> Handler<C> for Parcel {
        fn run<'j>(self, lease: LeaseGuard<'j, C>, _: &()) -> Outcome<'j> {
            leasehold_tests::parcels::deliver(lease, self.n, 2, &self.town)
        }
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
leasehold_tests::parcel_program!(with_features::Parcel, with_features::Parcel::new);

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn main() {}
