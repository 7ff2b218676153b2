//! The chosen row of a table whose rows come and go.

/// It is kept by what the row is about, not by where it stands.
#[derive(Debug)]
pub(super) struct Chosen<K> {
    key: Option<K>,
    at: usize,
}

impl<K> Default for Chosen<K> {
    fn default() -> Self {
        Self { key: None, at: 0 }
    }
}

impl<K: Clone + PartialEq> Chosen<K> {
    /// Where it stands now; without any rows, nowhere.
    pub(super) fn at(&self) -> Option<usize> {
        self.key.is_some().then_some(self.at)
    }

    /// Finds the row among new ones, or takes the one that has come to its place.
    pub(super) fn settle(&mut self, keys: &[K]) {
        let found = keys.iter().position(|key| Some(key) == self.key.as_ref());
        self.take(keys, found.unwrap_or(self.at));
    }

    pub(super) fn up(&mut self, keys: &[K]) {
        self.take(keys, self.at.saturating_sub(1));
    }

    pub(super) fn down(&mut self, keys: &[K]) {
        self.take(keys, self.at + 1);
    }

    fn take(&mut self, keys: &[K], at: usize) {
        self.at = at.min(keys.len().saturating_sub(1));
        self.key = keys.get(self.at).cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::Chosen;

    #[test]
    fn it_stays_with_its_row_and_else_near_its_place() {
        let mut chosen = Chosen::default();
        chosen.settle(&[1, 2, 3]);
        chosen.down(&[1, 2, 3]);
        assert_eq!(chosen.at(), Some(1));
        chosen.settle(&[0, 1, 2, 3]);
        assert_eq!(chosen.at(), Some(2));
        chosen.settle(&[0, 1]);
        assert_eq!(chosen.at(), Some(1));
        chosen.down(&[0, 1]);
        assert_eq!(chosen.at(), Some(1));
        chosen.up(&[0, 1]);
        chosen.up(&[0, 1]);
        assert_eq!(chosen.at(), Some(0));
        chosen.settle(&[]);
        assert_eq!(chosen.at(), None);
    }
}
