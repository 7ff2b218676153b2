use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use log::{Level, LevelFilter, Log, Metadata};

/// A log record, as a program's logger would have got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its level.
    pub level: Level,
    /// The module that wrote it.
    pub target: String,
    /// The text.
    pub message: String,
}

/// The records of the whole process since [`capture_log`], for as long as this lives.
///
/// Tests run side by side and workers log from threads of their own, so a test finds its records by something that only
/// it has: a kind, a queue, a database's name.
#[derive(Debug)]
pub struct CapturedLog {
    records: Arc<Mutex<Vec<Record>>>,
}

/// Begins to keep log records, of every level.
pub fn capture_log() -> CapturedLog {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        log::set_logger(&LOGGER).expect("the tests install one logger");
        log::set_max_level(LevelFilter::Trace);
    });
    let records = Arc::default();
    lock(&LOGGER.listeners).push(Arc::downgrade(&records));
    CapturedLog { records }
}

impl CapturedLog {
    /// The records whose text contains `text`, oldest first.
    pub fn with(&self, text: &str) -> Vec<Record> {
        let records = lock(&self.records);
        records
            .iter()
            .filter(|record| record.message.contains(text))
            .cloned()
            .collect()
    }
}

static LOGGER: Logger = Logger {
    listeners: Mutex::new(Vec::new()),
};

struct Logger {
    listeners: Mutex<Vec<Weak<Mutex<Vec<Record>>>>>,
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let record = Record {
            level: record.level(),
            target: record.target().to_owned(),
            message: record.args().to_string(),
        };
        lock(&self.listeners).retain(|listener| {
            let listening = listener.upgrade();
            if let Some(records) = &listening {
                lock(records).push(record.clone());
            }
            listening.is_some()
        });
    }

    fn flush(&self) {}
}

/// A failed assertion of one test must not fail the others.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
