//! The ways by which expressions get to parts of an object.

use std::cell::RefCell;
use std::rc::Rc;

use super::size::Size;
use crate::cel::extent::Extent;

/// The words that lead to a part of the object: a variable, and what was selected of it.
///
/// A word that is added to a way may replace the one that was added to it before: so do slices of Go, which share their
/// memory as long as it has room. In nested loops cel-go estimates with such ways, and refuses rules for it.
#[derive(Clone, Default)]
pub(super) struct Way {
    words: Rc<RefCell<Vec<Word>>>,
    length: usize,
}

#[derive(Clone, Default)]
enum Word {
    #[default]
    Variable,
    Field(String),
    /// The elements of a list or the values of a map.
    Values,
    Keys,
    Indexes,
}

impl Way {
    pub(super) fn variable() -> Self {
        Self::default().then(Word::Variable)
    }

    pub(super) fn field(&self, name: &str) -> Self {
        self.then(Word::Field(name.to_owned()))
    }

    pub(super) fn values(&self) -> Self {
        self.then(Word::Values)
    }

    pub(super) fn keys(&self) -> Self {
        self.then(Word::Keys)
    }

    pub(super) fn indexes(&self) -> Self {
        self.then(Word::Indexes)
    }

    fn then(&self, word: Word) -> Self {
        let mut words = Rc::clone(&self.words);
        if self.length == words.borrow().len() {
            let mut more = words.borrow().clone();
            more.resize((2 * self.length).max(1), Word::default());
            words = Rc::new(RefCell::new(more));
        }
        words.borrow_mut()[self.length] = word;
        Self { words, length: self.length + 1 }
    }

    /// The size of the part, if it is one that the schema knows. The first word counts as the variable, even where a
    /// way begins at a value that the expression has made.
    pub(super) fn size(&self, root: &Extent) -> Option<Size> {
        let words = self.words.borrow();
        let (_, parts) = words[..self.length].split_first()?;
        let part = parts.iter().try_fold(root, |extent, word| match word {
            Word::Field(name) => extent.field(name),
            Word::Values => extent.values(),
            Word::Keys => extent.keys(),
            Word::Indexes | Word::Variable => None,
        });
        part.map(|part| Size::up_to(part.most))
    }

    /// The size of the elements, for which the way must begin somewhere.
    pub(super) fn size_of_values(&self, root: &Extent) -> Option<Size> {
        if self.length == 0 {
            return None;
        }
        let copy = Self { words: Rc::new(RefCell::new(self.words.borrow().clone())), length: self.length };
        copy.values().size(root)
    }
}
