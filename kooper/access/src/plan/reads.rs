//! The selections of readers that name no subset.

use std::any::TypeId;

use kooper_runtime::Kind;
use kooper_runtime::internal::watch::cache_id::CacheRequest;
use kooper_runtime::internal::watch::selected::Selected;

use super::{Need, Plan, Reach};
use crate::subset::{All, parameters};

/// A selection of `reads`.
#[derive(Debug, Clone)]
pub(super) struct Reads {
    /// The cache of all objects of the kind.
    all: CacheRequest,
    selected: Option<&'static Selected>,
    /// The type that stands for it among the subsets.
    subset: TypeId,
    /// The kind, as the parameter of a `Reader`.
    kind: String,
}

impl Plan {
    /// Selects what the readers of a kind read that name no subset.
    pub(crate) fn reads<K: Kind>(&mut self, objects: All<K>) {
        let (secret, kind) = (objects.secret, parameters::<K, ()>());
        let selected = self.select("reads", objects);
        if selected.is_none() && !secret {
            let problem = format!(
                "a `Reader<{kind}>` reads all objects anyway: select some with `labels`, `fields`, `names` or `namespaces`"
            );
            self.note_mistake("reads", &problem);
        }
        let all = CacheRequest::of::<K>();
        if self.reads.iter().any(|reads| reads.all.id == all.id) {
            let problem = format!(
                "there are two selections for `Reader<{kind}>`: write one of them as a type that implements `Subset`, and \
                 name it, as in `Reader<{kind}, OfShop>`"
            );
            self.note_mistake("reads", &problem);
        }
        self.reads.push(Reads { all, selected, subset: TypeId::of::<All<K>>(), kind });
    }

    /// Leaves selections to another plan if only its readers have them.
    pub(crate) fn leave_reads_to(&mut self, other: &Self) {
        let has = |plan: &Self, reads: &Reads| plan.readers.iter().any(|(id, _)| *id == reads.all.id);
        let reads = std::mem::take(&mut self.reads);
        self.reads = reads.into_iter().filter(|reads| has(self, reads) || !has(other, reads)).collect();
    }

    /// Limits the readers to what `reads` selects, in whichever order they were noted.
    pub(super) fn settle_reads(&mut self) {
        for Reads { all, selected, subset, kind } in std::mem::take(&mut self.reads) {
            let readers = self.readers.iter().filter(|(id, _)| *id == all.id);
            let readers: Vec<_> = readers.map(|(_, because)| because.clone()).collect();
            if readers.is_empty() {
                let problem =
                    format!("no function takes a `Reader<{kind}>`: add the argument, or remove the selection");
                self.note_mistake("reads", &problem);
            }
            let Some(selected) = selected else { continue };
            if self.child_readers.contains(&all.id) {
                let problem = format!(
                    "children of the kind {kind} are declared, and a selection would hide some: write it as a type that \
                     implements `Subset`, and name it, as in `Reader<{kind}, OfShop>`"
                );
                self.note_mistake("reads", &problem);
                continue;
            }
            self.subsets.insert(subset, selected);
            let indexed = self.children.indexed.iter_mut().filter(|(request, _)| request.id == all.id);
            indexed.for_each(|(request, _)| request.id = request.id.selecting(Some(selected)));
            for because in readers {
                self.limit_reader(&all, selected, &because);
            }
        }
    }

    /// Limits one reader of all objects of a kind to a selection.
    fn limit_reader(&mut self, all: &CacheRequest, selected: &'static Selected, because: &str) {
        let limited = all.id.selecting(Some(selected));
        let caches = self.caches.iter_mut().filter(|(request, why)| request.id == all.id && why == because);
        caches.for_each(|(request, _)| request.id = limited);
        // A reader of another kind of this name, or of another version or part of this kind, is described alike.
        let others = || self.caches.iter().filter(|(request, why)| request.id != limited && why == because);
        let keeps_all = others().any(|(request, _)| request.id.selected.is_none());
        let watches_all = others().any(|(request, _)| {
            let of_kind = request.kind.is_same(&all.kind);
            of_kind && request.id.selected.is_none_or(|one| one.role_names().is_empty() && one.namespaces.is_empty())
        });
        self.whole.retain(|whole| keeps_all || whole != because);
        let watch_all = Need {
            rule: all.kind.rule(None, &["list", "watch"]),
            names: Vec::new(),
            reach: if all.kind.namespaced { Reach::Watched } else { Reach::Cluster },
            because: because.to_owned(),
        };
        // The need stays where it is.
        if let Some(at) = self.needs.iter().position(|need| *need == watch_all) {
            let after = self.needs.split_off(at);
            self.require_selected(&all.kind, Some(selected), &["list", "watch"], because);
            for need in after.into_iter().skip(usize::from(!watches_all)) {
                self.require_permission(need);
            }
        }
    }
}
