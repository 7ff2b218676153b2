//! A real terminal of 80 columns that the program runs in, and what it reads there.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_tests::jobs::SOON;
use leasehold_tests::{TestDb, eventually};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

pub(super) const ROWS: u16 = 24;
pub(super) const COLUMNS: u16 = 80;

pub(super) struct Screen {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    parser: Arc<Mutex<vt100::Parser>>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        pixel_width: 0,
        pixel_height: 0,
    }
}

fn lines(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has lines")
}

impl Screen {
    /// Runs the program on the test's database.
    pub(super) fn open<Db: TestDb>(db: &Db, arguments: &[&str]) -> Self {
        let pair = native_pty_system().openpty(size(ROWS, COLUMNS)).expect("a terminal");
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_leasehold"));
        command.args(["--database", &db.url()]);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env_remove("RUST_LOG");
        let child = pair.slave.spawn_command(command).expect("the program starts");
        // The reader sees the end only when nobody else has the other side open.
        drop(pair.slave);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(lines(ROWS), lines(COLUMNS), 0)));
        let mut output = pair.master.try_clone_reader().expect("a reader");
        let reads = Arc::clone(&parser);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                reads.lock().expect("no panic").process(&bytes[..count]);
            }
        });
        Self {
            child,
            keys: pair.master.take_writer().expect("a writer"),
            master: pair.master,
            parser,
        }
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the program reads keys");
        self.keys.flush().expect("the program reads keys");
    }

    pub(super) fn text(&self) -> String {
        self.parser.lock().expect("no panic").screen().contents()
    }

    /// The line that has `word`, once there is one.
    #[track_caller]
    pub(super) fn line(&self, word: &str) -> String {
        self.shows(word);
        let text = self.text();
        let line = text.lines().find(|line| line.contains(word));
        line.unwrap_or_else(|| panic!("`{word}` went again:\n{text}"))
            .to_owned()
    }

    #[track_caller]
    pub(super) fn shows(&self, text: &str) {
        self.comes(&format!("`{text}`"), |screen| screen.contains(text));
    }

    /// Waits for a screen; fails with the one that is there instead.
    #[track_caller]
    pub(super) fn comes(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let begin = std::time::Instant::now();
        while !condition(&self.text()) {
            assert!(begin.elapsed() < SOON, "{what} did not come:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn resize(&self, rows: u16, columns: u16) {
        self.parser
            .lock()
            .expect("no panic")
            .screen_mut()
            .set_size(lines(rows), lines(columns));
        self.master.resize(size(rows, columns)).expect("it has another size");
    }

    /// Whether it has the whole screen, as programs do that give it back.
    pub(super) fn is_taken(&self) -> bool {
        self.parser.lock().expect("no panic").screen().alternate_screen()
    }

    /// The exit code, once it ends.
    #[track_caller]
    pub(super) fn ends(&mut self) -> u32 {
        let mut code = None;
        eventually(SOON, "the program ends", || {
            code = self
                .child
                .try_wait()
                .expect("it is our child")
                .map(|status| status.exit_code());
            code.is_some()
        });
        code.expect("it ended")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
