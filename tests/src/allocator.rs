//! The system's allocator, which counts. It is that of a program with `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes that live, and the allocations of all time.
#[derive(Debug)]
pub struct Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe; this one passes everything on")]
// SAFETY: the system's allocator does the work, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The bytes that live.
pub fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The allocations of all time.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::Relaxed)
}
