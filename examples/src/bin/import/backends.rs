//! One source for both backends.

/// Compiles items for the connection type of each backend that is built in, by the name `Connection`. So they can use
/// Diesel's query builder as they would for one backend, and each is checked by itself.
macro_rules! for_each_backend {
    ($($item:item)*) => {
        #[cfg(feature = "sqlite")]
        const _: () = {
            type Connection = diesel::SqliteConnection;
            $($item)*
        };
        #[cfg(feature = "postgres")]
        const _: () = {
            type Connection = diesel::PgConnection;
            $($item)*
        };
    };
}
