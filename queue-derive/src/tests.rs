//! The macro by its tokens; what the compiler makes of them is tested with the library.

mod expansion;
mod fuzz;
mod messages;
