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
            width: 1100,
            height: 640,
            dark: false,
        },
    ),
    (
        "dark",
        Window {
            width: 1100,
            height: 640,
            dark: true,
        },
    ),
    (
        "phone",
        Window {
            width: 360,
            height: 640,
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
    with_browser(&installed, async |page| {
        page.visit(fixture.url()).await?;
        log_in(page).await?;
        for (look, window) in LOOKS {
            page.look_through(window).await?;
            for (name, path) in paths(&fixture) {
                page.open(&path).await?;
                let file = folder.join(format!("{name}-{look}.png"));
                fs::write(file, page.client.screenshot().await?).unwrap();
            }
        }
        Ok(())
    });
}
