//! The paths by which expressions get to parts of an object.

use std::cell::RefCell;
use std::rc::Rc;

use super::size::Size;
use crate::cel::extent::Extent;

/// The steps that lead to a part of the object: a variable, and what was selected of it.
///
/// A step that is added to a path may replace the one that was added to it before: so do slices of Go, which share their
/// memory as long as it has room. In nested loops cel-go estimates with such paths, and refuses rules for it.
#[derive(Clone, Default)]
pub(super) struct Path {
    steps: Rc<RefCell<Vec<PathStep>>>,
    length: usize,
}

#[derive(Clone, Default)]
enum PathStep {
    #[default]
    Variable,
    Field(String),
    /// The elements of a list or the values of a map.
    Values,
    Keys,
    Indexes,
}

impl Path {
    pub(super) fn variable() -> Self {
        Self::default().then(PathStep::Variable)
    }

    pub(super) fn field(&self, name: &str) -> Self {
        self.then(PathStep::Field(name.to_owned()))
    }

    pub(super) fn values(&self) -> Self {
        self.then(PathStep::Values)
    }

    pub(super) fn keys(&self) -> Self {
        self.then(PathStep::Keys)
    }

    pub(super) fn indexes(&self) -> Self {
        self.then(PathStep::Indexes)
    }

    fn then(&self, step: PathStep) -> Self {
        let mut steps = Rc::clone(&self.steps);
        if self.length == steps.borrow().len() {
            let mut more = steps.borrow().clone();
            more.resize((2 * self.length).max(1), PathStep::default());
            steps = Rc::new(RefCell::new(more));
        }
        steps.borrow_mut()[self.length] = step;
        Self { steps, length: self.length + 1 }
    }

    /// The size of the part, if it is one that the schema knows. The first step counts as the variable, even where a
    /// path begins at a value that the expression has made.
    pub(super) fn size(&self, root: &Extent) -> Option<Size> {
        let steps = self.steps.borrow();
        let (_, parts) = steps[..self.length].split_first()?;
        let part = parts.iter().try_fold(root, |extent, step| match step {
            PathStep::Field(name) => extent.field(name),
            PathStep::Values => extent.values(),
            PathStep::Keys => extent.keys(),
            PathStep::Indexes | PathStep::Variable => None,
        });
        part.map(|part| Size::up_to(part.most))
    }

    /// The size of the elements, for which the path must begin somewhere.
    pub(super) fn size_of_values(&self, root: &Extent) -> Option<Size> {
        if self.length == 0 {
            return None;
        }
        let copy = Self { steps: Rc::new(RefCell::new(self.steps.borrow().clone())), length: self.length };
        copy.values().size(root)
    }
}
