CREATE TABLE greetings (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL
);
