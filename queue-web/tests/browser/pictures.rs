//! The pictures of the documentation, when a folder for them is given.

use std::fs;
use std::path::PathBuf;

use leasehold_tests::TestDb;
use leasehold_tests::sqlite::Database;

use crate::browser::{Window, installed, with_browser};
use crate::fixture::Fixture;
use crate::visit::{log_in, paths};

const LOOKS: [(&str, Window); 3] = [
    (
        "light",
        Window {
            width: 1200,
            height: 800,
            dark: false,
        },
    ),
    (
        "dark",
        Window {
            width: 1200,
            height: 800,
            dark: true,
        },
    ),
    (
        "phone",
        Window {
            width: 390,
            height: 800,
            dark: false,
        },
    ),
];

#[test]
fn pictures_are_written_where_a_folder_is_given() {
    let (Some(folder), Some(installed)) = (std::env::var_os("LEASEHOLD_SCREENSHOTS"), installed()) else {
        leasehold_tests::skipped(
            module_path!(),
            "no folder for pictures is given, or there is no Chromium with its driver",
        );
        return;
    };
    // Tests run in their package's folder; people are in the workspace's.
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    fs::create_dir_all(&folder).unwrap();
    let mut db = Database::new();
    let fixture = Fixture::new(&mut db);
    for (look, window) in LOOKS {
        with_browser(&installed, window, &fixture.url(), async |page| {
            log_in(page).await?;
            for path in paths(&fixture) {
                page.open(&path).await?;
                let first = path
                    .split('/')
                    .nth(1)
                    .filter(|part| !part.is_empty())
                    .unwrap_or("overview");
                let one = if path.matches('/').count() > 1 { "-one" } else { "" };
                fs::write(
                    folder.join(format!("{first}{one}-{look}.png")),
                    page.client.screenshot().await?,
                )
                .unwrap();
            }
            Ok(())
        });
    }
}
