//! The newsroom as a program; see the library beside it.

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod program;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::main()
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
fn main() {
    eprintln!("built without a database: choose the feature `sqlite` or `postgres`");
}
