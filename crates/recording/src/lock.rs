//! The lock on a recording or a journal: one process at a time may write it.

use std::fs::File;
use std::ops::Deref;

use rustix::fs::{FlockOperation, flock};

/// A file or folder that only this process may write, until the value is dropped.
#[derive(Debug)]
pub struct Locked(File);

/// The error if another process writes the file.
#[derive(Debug)]
pub struct LockedElsewhere;

impl Locked {
    /// Locks the file for this process. Some network file systems have no locks: on those the file is not protected.
    ///
    /// # Errors
    /// If another process writes it.
    pub fn take(file: File) -> Result<Locked, LockedElsewhere> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockedElsewhere),
            _ => Ok(Locked(file)),
        }
    }

    /// True if a process writes the file at this moment. Always false on a file system without locks.
    pub(crate) fn is_taken(file: &File) -> bool {
        let taken = flock(file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK);
        // This check must not keep another process from locking the file.
        let _ = flock(file, FlockOperation::Unlock);
        taken
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing the file is not enough. A child that another thread is starting has a copy of the descriptor from its
        // fork to its exec. The lock would last as long as that copy.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let locked = Locked::take(File::create(&path).unwrap()).unwrap();
        let copy = locked.try_clone().unwrap();
        assert!(Locked::is_taken(&File::open(&path).unwrap()));
        let unlocked = File::open(&path).unwrap();
        assert!(Locked::take(File::open(&path).unwrap()).is_err(), "it is taken");
        drop(locked);
        assert!(!Locked::is_taken(&unlocked));
        assert!(Locked::take(File::open(&path).unwrap()).is_ok(), "a child that is being started holds {copy:?}");
    }
}
