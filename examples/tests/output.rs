//! The small examples print what `expected/` says.

use std::path::Path;
use std::process::Command;

/// Runs an example and compares its output.
#[track_caller]
fn prints_what_is_expected(name: &str, program: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("expected")
        .join(name)
        .with_extension("txt");
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let output = Command::new(program)
        .env_remove("RUST_LOG")
        .output()
        .expect("the example starts");
    let (printed, complaints) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{name} ended with {}: {complaints}",
        output.status
    );
    // The order of two orders' events is not the relay's business.
    let comparable = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if name == "outbox" {
            lines.sort();
        }
        lines
    };
    assert_eq!(
        comparable(&printed),
        comparable(&expected),
        "{name}; on standard error: {complaints}"
    );
}

macro_rules! examples {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            prints_what_is_expected(stringify!($name), env!(concat!("CARGO_BIN_EXE_", stringify!($name))));
        }
    )*};
}

examples! {
    hello transactional_enqueue retries many_workers graceful_stop cron batch workflow unique limits steps selected outbox
}
