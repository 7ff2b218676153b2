//! One of the sessions that are in each other's way.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::Failure;
use crate::answer::{Answer, first, lines};
use crate::demonstrations::short;

/// A demonstration in which something takes longer has gone wrong.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOKS: Duration = Duration::from_millis(10);

/// A connection on a thread of its own, so that it can be seen waiting.
pub(crate) struct Session {
    name: String,
    url: String,
    pid: i64,
    orders: Sender<String>,
    answers: Receiver<Answer>,
    /// What it was asked and has not answered.
    asked: Option<String>,
}

impl Session {
    pub(crate) fn new(url: &str, name: &str) -> Result<Self, Failure> {
        let mut client = Client::connect(url, NoTls)?;
        // The transcript must not depend on how the server is set.
        client.batch_execute(&format!(
            "SET application_name = '{name}'; SET default_transaction_isolation = 'read committed'"
        ))?;
        // Asks for rights that not everybody has.
        let _ = client.batch_execute("SET lc_messages = 'C'");
        let pid = client.query_one("SELECT pg_backend_pid()::bigint", &[])?.get(0);
        let (orders, incoming) = channel::<String>();
        let (outgoing, answers) = channel();
        thread::spawn(move || {
            for statement in incoming {
                let _ = outgoing.send(client.simple_query(&statement));
            }
        });
        Ok(Self {
            name: name.to_owned(),
            url: url.to_owned(),
            pid,
            orders,
            answers,
            asked: None,
        })
    }

    /// Runs a statement, and prints it with its answer.
    pub(crate) fn says(&mut self, statement: &str) -> Result<(), Failure> {
        println!("{}", self.tells(statement)?);
        Ok(())
    }

    /// Runs a statement, and gives back what [`Session::says`] prints.
    pub(crate) fn tells(&mut self, statement: &str) -> Result<String, Failure> {
        self.ask(statement)?;
        let (statement, answer) = self.answer()?;
        Ok(self.page(&statement, &lines(&statement, &answer)))
    }

    /// A setting of the server, not printed.
    pub(crate) fn shows(&mut self, setting: &str) -> Result<String, Failure> {
        self.ask(&format!("SHOW {setting}"))?;
        let (_, answer) = self.answer()?;
        Ok(first(&answer).unwrap_or_default().to_owned())
    }

    /// Runs a statement again and again until its first value is this one, and prints it with that answer.
    pub(crate) fn says_until(&mut self, statement: &str, value: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            self.ask(statement)?;
            let (statement, answer) = self.answer()?;
            if first(&answer) == Some(value) {
                println!("{}", self.page(&statement, &lines(&statement, &answer)));
                return Ok(());
            }
            self.patience(begun, &format!("get {value}"), &answer)?;
        }
    }

    /// Runs a statement that has to wait for a lock, and comes back when the server says that it does.
    pub(crate) fn waits(&mut self, statement: &str) -> Result<(), Failure> {
        self.ask(statement)?;
        let event = self.event()?;
        println!("{}", self.page(statement, &[format!("waits for a lock ({event})")]));
        Ok(())
    }

    /// Prints the answer of a statement that has waited.
    pub(crate) fn goes_on(&mut self) -> Result<(), Failure> {
        let answered = self.ends()?;
        println!("{}", self.page("… goes on", &answered));
        Ok(())
    }

    /// Prints a statement that another session will have something to say to.
    pub(crate) fn begins(&mut self, statement: &str) -> Result<(), Failure> {
        println!("{}", self.page(statement, &[]));
        self.ask(statement)
    }

    /// The answer of a statement that has waited, in lines.
    pub(crate) fn ends(&mut self) -> Result<Vec<String>, Failure> {
        let (statement, answer) = self.answer()?;
        Ok(lines(&statement, &answer))
    }

    fn ask(&mut self, statement: &str) -> Result<(), Failure> {
        self.orders.send(statement.to_owned())?;
        self.asked = Some(statement.to_owned());
        Ok(())
    }

    fn answer(&mut self) -> Result<(String, Answer), Failure> {
        let statement = self.asked.take().ok_or("nothing was asked")?;
        match self.answers.recv_timeout(PATIENCE) {
            Ok(answer) => Ok((statement, answer)),
            Err(RecvTimeoutError::Timeout) => Err(format!("{} has no answer to {statement}", self.name).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the session waits for, as another one sees it.
    fn event(&self) -> Result<String, Failure> {
        let mut onlooker = Client::connect(&self.url, NoTls)?;
        let begun = Instant::now();
        loop {
            let waits = "SELECT wait_event FROM pg_stat_activity WHERE pid = $1::bigint AND wait_event_type = 'Lock'";
            if let Some(row) = onlooker.query_opt(waits, &[&self.pid])? {
                return Ok(row.get(0));
            }
            if let Ok(answer) = self.answers.try_recv() {
                return Err(format!("{} was to wait, and got {answer:?}", self.name).into());
            }
            self.patience(begun, "wait", &"nothing")?;
        }
    }

    /// Another look in a moment, but not for ever.
    fn patience(&self, begun: Instant, to: &str, got: &impl std::fmt::Debug) -> Result<(), Failure> {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} was to {to}, and got {got:?}", self.name).into());
        }
        thread::sleep(LOOKS);
        Ok(())
    }

    /// A statement with its answer, below the session's name.
    fn page(&self, statement: &str, answered: &[String]) -> String {
        let statement = short(statement).replace('\n', "\n    ");
        let answered = answered.iter().map(|line| format!("\n      → {line}"));
        format!("{:3} {statement}{}", self.name, answered.collect::<String>())
    }
}
