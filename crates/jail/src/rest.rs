//! Lets go of what this process has used and does not need while it rests.
//!
//! A gate that has started has read its configuration, written schemas and made keys, and does none of that again for hours. The
//! kernel keeps such code resident, with what stands around it, until memory is short. It is there once for all processes
//! anyway, in the file that it was read from: what is needed again comes back from there, in less than a millisecond. The
//! allocator keeps what was freed in the same way, for a load that may not come again.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// Who uses less of a processor from one look to the next rests.
const CALM: Duration = Duration::from_millis(5);
/// Who has used as much since code was let go has some again.
const WORK: Duration = Duration::from_millis(10);

/// Lets go of all code, and of memory that was freed, whenever this process has worked and rests.
#[derive(Debug, Default)]
pub struct Rest {
    /// The processor time that was used by the last look.
    looked: Duration,
    /// And when code was let go.
    let_go: Duration,
}

impl Rest {
    /// To be called again and again, a second apart or so.
    pub fn look(&mut self) -> io::Result<()> {
        let used = processor_time();
        let is_due = is_due(used.saturating_sub(self.looked), used.saturating_sub(self.let_go));
        self.looked = used;
        if is_due {
            sys::give_back_memory();
            let_go_of_code()?;
            self.let_go = processor_time();
        }
        Ok(())
    }
}

fn is_due(since_the_last_look: Duration, since_it_was_let_go: Duration) -> bool {
    since_the_last_look < CALM && since_it_was_let_go >= WORK
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn let_go_of_code() -> io::Result<()> {
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
    fn who_has_worked_and_rests_lets_go() {
        let [little, much] = [1, 100].map(Duration::from_millis);
        assert!(is_due(little, much));
        assert!(!is_due(much, much), "it works still");
        assert!(!is_due(little, little), "there is next to nothing to let go");
    }

    #[test]
    fn what_was_let_go_runs_all_the_same() {
        let sum = |numbers: &[u64]| numbers.iter().sum::<u64>();
        assert_eq!(sum(&[1, 2]), 3);
        let_go_of_code().unwrap();
        assert_eq!(sum(&[1, 2, 3]), 6);
    }
}
