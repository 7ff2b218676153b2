//! The program `import`, run as its users run it, on both backends.

mod program;

mod broken;
mod killed;
mod once;
mod usage;
