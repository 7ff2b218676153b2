//! Reads the statements of the library out of its sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../queue/src")
}

/// A piece of Rust: the text of a string, or anything else.
enum Piece {
    Text(String),
    Code(String),
}

/// Splits Rust into strings and code, comments left out. The sources have neither raw strings with quotes inside nor
/// escapes that matter to SQL.
fn pieces(source: &str) -> Vec<Piece> {
    let (mut pieces, mut code) = (Vec::new(), String::new());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\'") {
            rest = &rest[3..];
        } else if character == '"' {
            let body = &rest[1..];
            let mut end = body.find('"').expect("a string ends");
            while body[..end].ends_with('\\') {
                end += 1 + body[end + 1..].find('"').expect("a string ends");
            }
            pieces.push(Piece::Code(std::mem::take(&mut code)));
            pieces.push(Piece::Text(body[..end].to_owned()));
            rest = &body[end + 1..];
        } else {
            code.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    pieces.push(Piece::Code(code));
    pieces
}

/// The words of code that name what follows: of `const NAME: &str = concat!(`, the name and the macro.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'))
        .filter(|word| !word.is_empty())
}

/// The tables whose rows somebody can own.
const TABLES: [&str; 4] = [
    "leasehold.jobs",
    "leasehold_jobs",
    "leasehold.outbox_events",
    "leasehold_outbox_events",
];

/// The text of each constant and macro of a file, by its name; a call of one of `macros` stands for the macro's text.
fn statements(source: &str, macros: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut statements = BTreeMap::<String, String>::new();
    let mut name = String::from("outside");
    for piece in pieces(source) {
        match piece {
            Piece::Text(text) => statements.entry(name.clone()).or_default().push_str(&text),
            Piece::Code(code) => {
                let mut last = "";
                for word in words(&code) {
                    match last {
                        "const" | "static" | "fn" | "macro_rules!" => name = word.to_owned(),
                        _ => {}
                    }
                    if let Some(text) = word.strip_suffix('!').and_then(|called| macros.get(called)) {
                        statements.entry(name.clone()).or_default().push_str(text);
                    }
                    last = word;
                }
            }
        }
    }
    statements
}

/// The parts of a statement that write a job's row, each from its verb to the end of its WHERE.
pub(crate) fn writes(text: &str, table: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let upper = text.to_ascii_uppercase();
    let mut writes = Vec::new();
    for verb in [
        "UPDATE",
        "DELETE FROM",
        "UPDATE ONLY",
        "MERGE INTO",
        "REPLACE INTO",
        "TRUNCATE",
    ] {
        let begin = format!("{verb} {}", table.to_ascii_uppercase());
        for (at, found) in upper.match_indices(&begin) {
            let after = upper[at + found.len()..].chars().next();
            if after.is_none_or(|next| !(next.is_alphanumeric() || next == '_')) {
                writes.push(own_part(&text[at..]));
            }
        }
    }
    writes
}

/// `write` up to where its brackets close or its RETURNING begins, without the selects in brackets: a condition in there
/// is about other rows, but for that of `AND EXISTS`, which ties them to the row that is written.
fn own_part(write: &str) -> String {
    let (mut own, mut depth, mut hidden) = (String::new(), 0_u32, None);
    for (at, character) in write.char_indices() {
        match character {
            '(' => {
                depth += 1;
                let inner = write[at + 1..].trim_start();
                let tied = own.trim_end().ends_with("AND EXISTS");
                if hidden.is_none() && !tied && (inner.starts_with("SELECT") || inner.starts_with("ARRAY")) {
                    hidden = Some(depth);
                }
            }
            ')' if depth == 0 => break,
            ')' => {
                if hidden == Some(depth) {
                    hidden = None;
                }
                depth -= 1;
            }
            _ if depth == 0 && write[at..].starts_with(" RETURNING") => break,
            _ => {}
        }
        if hidden.is_none() {
            own.push(character);
        }
    }
    own.split_once(" WHERE ")
        .map_or_else(String::new, |(_, condition)| condition.to_owned())
}

/// What of the fence a condition does not name. Jobs are `j` in the statements, events `e`.
pub(crate) fn missing(condition: &str) -> Vec<&'static str> {
    let bare = format!(" {condition}")
        .replace("j.", "")
        .replace(" e.", " ")
        .replace("(e.", "(");
    let tuple = bare.contains("(id, generation, lease_token) IN");
    let names = |column: &str| tuple || format!(" {bare}").contains(&format!(" {column} = "));
    let mut missing: Vec<_> = ["id", "generation", "lease_token"]
        .into_iter()
        .filter(|column| !names(column))
        .collect();
    if !bare.contains("state = 'running'") {
        missing.push("state");
    }
    if bare.contains(" OR ") || bare.contains("NOT ") || bare.contains("<>") || bare.contains(">=") {
        missing.push("a plain AND of comparisons");
    }
    missing
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files below a directory, by their path from there without the extension.
fn rust_files(directory: &Path, below: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let name = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        if path.is_dir() {
            rust_files(&path, &name, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(name, read(&path));
        }
    }
}

/// Every write of a job's or an event's row in the library: file, constant, condition.
pub(crate) fn all_writes() -> Vec<(String, String, String)> {
    writes_of(&TABLES)
}

/// Every write of an application's row that is owned: file, constant, condition.
pub(crate) fn owned_row_writes() -> Vec<(String, String, String)> {
    writes_of(&["{table}"])
}

fn writes_of(tables: &[&str]) -> Vec<(String, String, String)> {
    let mut files = BTreeMap::new();
    rust_files(&sources(), "", &mut files);
    let macros = statements(&files["backend/postgres/texts"], &BTreeMap::new());
    let mut all = Vec::new();
    for (file, source) in &files {
        // A folder `tests` has the unit tests of the folder beside it.
        if file.contains("/tests") {
            continue;
        }
        let place = file.strip_prefix("backend/").unwrap_or(file);
        for (name, text) in statements(source, &macros) {
            for table in tables {
                all.extend(
                    writes(&text, table)
                        .into_iter()
                        .map(|condition| (place.to_owned(), name.clone(), condition)),
                );
            }
        }
    }
    all
}
