//! A sorted map that is cheap to copy: copies share their leaves until one of them is written to.

use std::sync::Arc;

/// Entries in one leaf; a write copies at most one leaf that a copy shares.
const LEAF: usize = 64;

/// Values by name, in the order of the names.
#[derive(Debug)]
pub(crate) struct Tree<V> {
    leaves: Arc<Vec<Arc<Vec<Entry<V>>>>>,
    len: usize,
}

type Entry<V> = (Arc<str>, V);

impl<V> Clone for Tree<V> {
    fn clone(&self) -> Self {
        Self { leaves: Arc::clone(&self.leaves), len: self.len }
    }
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self { leaves: Arc::new(Vec::new()), len: 0 }
    }
}

impl<V: Clone> Tree<V> {
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        let leaf = self.leaves.get(self.leaf_of(name)?)?;
        let at = position(leaf, name).ok()?;
        Some(&leaf[at].1)
    }

    /// Sets a value and returns the one before.
    pub(crate) fn insert(&mut self, name: &str, value: V) -> Option<V> {
        let leaf_of = self.leaf_of(name);
        let leaves = Arc::make_mut(&mut self.leaves);
        let index = match leaf_of {
            Some(index) => index,
            None => {
                if leaves.is_empty() {
                    leaves.push(Arc::new(Vec::new()));
                }
                0
            }
        };
        let leaf = Arc::make_mut(&mut leaves[index]);
        match position(leaf, name) {
            Ok(at) => Some(std::mem::replace(&mut leaf[at].1, value)),
            Err(at) => {
                leaf.insert(at, (name.into(), value));
                if leaf.len() > LEAF {
                    // Names that only grow leave full leaves behind.
                    let upper = leaf.split_off(if at == LEAF { LEAF } else { LEAF / 2 });
                    leaves.insert(index + 1, Arc::new(upper));
                }
                self.len += 1;
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<V> {
        let index = self.leaf_of(name)?;
        let at = position(self.leaves.get(index)?, name).ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[index]);
        let (_, value) = leaf.remove(at);
        if leaf.is_empty() {
            leaves.remove(index);
        }
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entries from the first name that is not below `from`.
    pub(crate) fn range<'a>(&'a self, from: &str) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> + use<'a, V> {
        let index = self.leaf_of(from).unwrap_or(0);
        let at = self.leaves.get(index).map_or(0, |leaf| position(leaf, from).unwrap_or_else(|at| at));
        let first = self.leaves.get(index).map(|leaf| leaf[at..].iter()).into_iter().flatten();
        let rest = self.leaves.iter().skip(index + 1).flat_map(|leaf| leaf.iter());
        first.chain(rest).map(|(name, value)| (name, value))
    }

    /// The entries of a namespace.
    pub(crate) fn in_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> + use<'a, V> {
        let prefix = format!("{namespace}/");
        self.range(&prefix).take_while(move |(name, _)| name.starts_with(&prefix))
    }

    /// The last leaf that begins at or below `name`; `None` if all begin above.
    fn leaf_of(&self, name: &str) -> Option<usize> {
        let above = self.leaves.partition_point(|leaf| leaf.first().is_some_and(|(first, _)| first.as_ref() <= name));
        above.checked_sub(1)
    }
}

fn position<V>(leaf: &[Entry<V>], name: &str) -> Result<usize, usize> {
    leaf.binary_search_by(|(other, _)| other.as_ref().cmp(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Tree;

    #[test]
    fn it_behaves_as_a_sorted_map_and_copies_do_not_change() {
        let mut tree = Tree::default();
        let mut map = BTreeMap::new();
        let mut state = 7_u64;
        for step in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let name = format!("{:03}", (state >> 33) % 700);
            let before = (tree.clone(), map.clone());
            if state >> 62 == 0 {
                assert_eq!(tree.remove(&name), map.remove(&name));
            } else {
                assert_eq!(tree.insert(&name, step), map.insert(name.clone(), step));
            }
            assert_eq!(tree.get(&name), map.get(&name));
            assert_eq!(tree.len(), map.len());
            if step % 100 == 0 {
                let entries = |tree: &Tree<i32>| {
                    tree.range("").map(|(name, value)| (name.to_string(), *value)).collect::<Vec<_>>()
                };
                assert_eq!(entries(&tree), map.clone().into_iter().collect::<Vec<_>>());
                assert_eq!(entries(&before.0), before.1.into_iter().collect::<Vec<_>>());
                let upper: Vec<_> = tree.range("350").map(|(name, _)| name.to_string()).collect();
                assert_eq!(upper, map.range("350".to_owned()..).map(|(name, _)| name.clone()).collect::<Vec<_>>());
            }
        }
    }
}
