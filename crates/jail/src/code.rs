//! Lets go of code that this process has used.
//!
//! A gate that has started has read its configuration, written schemas and made keys, and does none of that again for hours. The
//! kernel keeps such code resident, with what stands around it, until memory is short. It is there once for all processes
//! anyway, in the file that it was read from: what is needed again comes back from there.

use std::fs;
use std::io;

use crate::sys;

/// Lets go of all of it: what the next calls need comes back with them. For a process that has started.
pub fn let_go_of_code() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        if let Some((start, end)) = code_in(line) {
            sys::let_go_of_code(start, end - start)?;
        }
    }
    Ok(())
}

/// Where the code of a file is mapped, if a line of the kernel's list tells of such.
fn code_in(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (access, _offset, _device, inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
    // Nobody can have written to it, so the file has all of it.
    let is_code = access == "r-xp" && inode != "0";
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = (address(start)?, address(end)?);
    (is_code && range.0 < range.1).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_alone_is_let_go() {
        let line =
            |access, inode| format!("00400000-00500000 {access} 00001000 fe:00 {inode}   /usr/bin/toolgate");
        assert_eq!(code_in(&line("r-xp", "42")), Some((0x0040_0000, 0x0050_0000)));
        for (access, inode) in [("rwxp", "42"), ("r--p", "42"), ("rw-p", "42"), ("r-xs", "42"), ("r-xp", "0")]
        {
            assert_eq!(code_in(&line(access, inode)), None, "{access} {inode}");
        }
        assert_eq!(code_in("nonsense"), None);
    }

    #[test]
    fn what_was_let_go_runs_all_the_same() {
        let sum = |numbers: &[u64]| numbers.iter().sum::<u64>();
        assert_eq!(sum(&[1, 2]), 3);
        let_go_of_code().unwrap();
        assert_eq!(sum(&[1, 2, 3]), 6);
    }
}
