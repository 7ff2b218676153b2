//! What is on the screen beside what was read: the pane, the chosen rows, a question.

use std::collections::{HashMap, VecDeque};

use leasehold::inspect::FailureRecord;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::action::Action;
use super::chosen::Chosen;
use super::look::Look;

/// Looks that a queue's depth is kept of.
const DEPTHS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Queues,
    Running,
    Failures,
}

pub(super) enum Pressed {
    Nothing,
    Confirmed(Action),
    Resized,
    Quit,
}

pub(super) struct View {
    pub(super) look: Look,
    pub(super) pane: Pane,
    pub(super) queue: Chosen<String>,
    pub(super) running: Chosen<i64>,
    pub(super) failure: Chosen<(i64, i64)>,
    pub(super) asks: Option<Action>,
    /// What came of the last action, until the next key.
    pub(super) said: Option<String>,
    depths: HashMap<String, VecDeque<u64>>,
}

/// An attempt that failed ended one generation of its job.
fn key(failure: &FailureRecord) -> (i64, i64) {
    (failure.job, failure.error.generation)
}

impl View {
    pub(super) fn new(look: Look) -> Self {
        let mut view = Self {
            look,
            pane: Pane::Queues,
            queue: Chosen::default(),
            running: Chosen::default(),
            failure: Chosen::default(),
            asks: None,
            said: None,
            depths: HashMap::new(),
        };
        view.settle();
        view
    }

    pub(super) fn show(&mut self, look: Look) {
        self.look = look;
        self.settle();
    }

    pub(super) fn say(&mut self, text: String) {
        self.said = Some(text);
    }

    /// How many jobs of the queue were due at the last looks, the oldest first.
    pub(super) fn depths(&self, queue: &str) -> Vec<u64> {
        self.depths
            .get(queue)
            .map(|depths| depths.iter().copied().collect())
            .unwrap_or_default()
    }

    fn settle(&mut self) {
        self.queue.settle(&self.queues());
        self.running.settle(&self.jobs());
        self.failure.settle(&self.failures());
        self.depths
            .retain(|name, _| self.look.queues.iter().any(|queue| queue.queue == *name));
        for queue in &self.look.queues {
            let depths = self.depths.entry(queue.queue.clone()).or_default();
            depths.push_back(queue.ready.rows);
            if depths.len() > DEPTHS {
                depths.pop_front();
            }
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Pressed {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Pressed::Quit;
        }
        if let Some(action) = self.asks.take() {
            if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                return Pressed::Confirmed(action);
            }
            self.said = Some("nothing was done".to_owned());
            return Pressed::Nothing;
        }
        self.said = None;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Pressed::Quit,
            KeyCode::Tab => self.pane = self.next_pane(),
            KeyCode::BackTab => {
                self.pane = self.next_pane();
                self.pane = self.next_pane();
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(true),
            KeyCode::Down | KeyCode::Char('j') => self.step(false),
            KeyCode::Char(letter) => self.ask(letter),
            _ => {}
        }
        Pressed::Nothing
    }

    fn next_pane(&self) -> Pane {
        match self.pane {
            Pane::Queues => Pane::Running,
            Pane::Running => Pane::Failures,
            Pane::Failures => Pane::Queues,
        }
    }

    fn step(&mut self, up: bool) {
        match (self.pane, up) {
            (Pane::Queues, true) => self.queue.up(&self.queues()),
            (Pane::Queues, false) => self.queue.down(&self.queues()),
            (Pane::Running, true) => self.running.up(&self.jobs()),
            (Pane::Running, false) => self.running.down(&self.jobs()),
            (Pane::Failures, true) => self.failure.up(&self.failures()),
            (Pane::Failures, false) => self.failure.down(&self.failures()),
        }
    }

    /// Keys are for the pane that has the focus, so that nobody cancels what they do not look at.
    fn ask(&mut self, letter: char) {
        let action = match (letter, self.pane) {
            ('p', Pane::Queues) => self.at_queue(),
            ('c' | 'C', Pane::Running) => {
                self.running
                    .at()
                    .and_then(|at| self.look.running.get(at))
                    .map(|job| Action::Cancel {
                        id: job.id,
                        hard: letter == 'C',
                    })
            }
            ('r', Pane::Failures) => self
                .failure
                .at()
                .and_then(|at| self.look.failures.get(at))
                .map(|failure| Action::Requeue(failure.job)),
            ('p', _) => return self.elsewhere("queues"),
            ('c' | 'C', _) => return self.elsewhere("running jobs"),
            ('r', _) => return self.elsewhere("failures"),
            _ => return,
        };
        self.asks = action;
    }

    fn elsewhere(&mut self, pane: &str) {
        self.said = Some(format!("that key is for the {pane}: Tab goes there"));
    }

    fn at_queue(&self) -> Option<Action> {
        let queue = self.look.queues.get(self.queue.at()?)?;
        Some(match queue.paused {
            true => Action::Resume(queue.queue.clone()),
            false => Action::Pause(queue.queue.clone()),
        })
    }

    fn queues(&self) -> Vec<String> {
        self.look.queues.iter().map(|queue| queue.queue.clone()).collect()
    }

    fn jobs(&self) -> Vec<i64> {
        self.look.running.iter().map(|job| job.id).collect()
    }

    fn failures(&self) -> Vec<(i64, i64)> {
        self.look.failures.iter().map(key).collect()
    }
}
