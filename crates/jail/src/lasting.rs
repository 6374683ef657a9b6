//! Memory that is made once and read by every copy of this process.
//!
//! To copy a process is to copy where each of its pages is, and to end the copy is to take that down again. Tables of some
//! megabytes are seven hundred pages, for every sandbox, most of which never look at them. In large pages they are two or three.
//!
//! The kernel has large pages where nobody else's small things lie between: a copy that writes to one gets small pages for all of
//! it. So what lasts is made by a thread of its own, which the C library gives memory of its own, and which ends. Nothing hangs
//! on it but time: where there are no large pages, small ones do as well.

use std::collections::HashSet;
use std::fs;
use std::hint::black_box;
use std::mem;
use std::ops::Range;
use std::thread;

use crate::sys;

/// As large pages are on every machine that we run on.
const LARGE: usize = 2 << 20;
/// No large page, which nobody would need afterwards.
const STACK: usize = LARGE / 2;

/// Has the C library take long pieces from the same memory as short ones: each would lie in a mapping of its own otherwise, and
/// most are too short for a large page.
pub(crate) const TOGETHER: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=67108864");

/// Makes something that lasts as long as this process and its copies. Before any other thread is begun.
pub(crate) fn make(make: fn()) {
    let before: HashSet<usize> = plain_memory().into_iter().map(|memory| memory.start).collect();
    let made = thread::Builder::new().stack_size(STACK).spawn(move || {
        make();
        // The last large page has to be this memory's to its end. Nobody touches that.
        mem::forget(black_box(Vec::<u8>::with_capacity(LARGE)));
    });
    // What panics there has made nothing, and is made by whoever needs it.
    let Ok(Ok(())) = made.map(thread::JoinHandle::join) else { return };
    for memory in plain_memory().into_iter().filter(|memory| !before.contains(&memory.start)) {
        if let Some(whole) = whole_pages(&memory) {
            sys::put_in_large_pages(whole.start, whole.len());
        }
    }
}

/// The large pages that lie in this memory.
fn whole_pages(memory: &Range<usize>) -> Option<Range<usize>> {
    let whole = memory.start.next_multiple_of(LARGE)..memory.end / LARGE * LARGE;
    (!whole.is_empty()).then_some(whole)
}

/// Where this process has memory that is of no file and has no name.
fn plain_memory() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(plain_in).collect()
}

fn plain_in(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_plain = words.next()? == "rw-p" && words.nth(2)? == "0" && words.next().is_none();
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_plain.then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    static TABLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();

    #[test]
    fn what_was_made_is_there_and_large_pages_hold_it_where_there_are_any() {
        make(|| drop(TABLE.set((0..4096).map(|number| vec![number as u8; 1024]).collect())));
        let table = TABLE.get().unwrap();
        assert!(table.iter().enumerate().all(|(number, row)| row.iter().all(|byte| *byte == number as u8)));
    }

    #[test]
    fn what_panics_ends_nobody() {
        make(|| std::panic::resume_unwind(Box::new(())));
    }

    #[test]
    fn only_large_pages_as_a_whole_are_taken() {
        let page = |number: usize| number * LARGE;
        assert_eq!(whole_pages(&(page(1) + 1..page(4) - 1)), Some(page(2)..page(3)));
        assert_eq!(whole_pages(&(page(1)..page(2))), Some(page(1)..page(2)));
        assert_eq!(whole_pages(&(page(1) + 1..page(3) - 1)), None);
    }

    #[test]
    fn memory_of_files_and_stacks_and_heaps_is_not_plain() {
        let plain = "7f0000021000-7f0004000000 rw-p 00000000 00:00 0 ";
        assert_eq!(plain_in(plain), Some(0x7f00_0002_1000..0x7f00_0400_0000));
        for other in [
            "7f0000021000-7f0004000000 ---p 00000000 00:00 0 ",
            "0be73000-0c000000 rw-p 00000000 00:00 0 [heap]",
            "04336000-04344000 rw-p 04133000 fe:00 909317 /usr/bin/toolgate",
            "nonsense",
        ] {
            assert_eq!(plain_in(other), None, "{other}");
        }
    }
}
