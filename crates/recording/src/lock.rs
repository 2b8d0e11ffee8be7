//! Who may write a recording or a journal: one process at a time.

use std::fs::File;
use std::ops::Deref;

use rustix::fs::{FlockOperation, flock};

/// A file, or a folder, that this process alone may write until the value is dropped.
#[derive(Debug)]
pub struct Locked(File);

/// Another process writes the file.
#[derive(Debug)]
pub struct LockedElsewhere;

impl Locked {
    /// Takes the file for this process. Some network file systems have no locks: on those, nothing protects it.
    ///
    /// # Errors
    /// If another process writes it.
    pub fn take(file: File) -> Result<Locked, LockedElsewhere> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockedElsewhere),
            _ => Ok(Locked(file)),
        }
    }

    /// Whether a process writes the file at this moment. On a file system without locks, none does.
    pub(crate) fn is_taken(file: &File) -> bool {
        let taken = flock(file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK);
        // To look keeps nobody from writing.
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
        // To close the file is not enough. A child that another thread is starting has a copy of the descriptor
        // from its fork to its exec, and the lock would last as long as that copy.
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
        let looks = File::open(&path).unwrap();
        assert!(Locked::take(File::open(&path).unwrap()).is_err(), "it is taken");
        drop(locked);
        assert!(!Locked::is_taken(&looks));
        assert!(Locked::take(File::open(&path).unwrap()).is_ok(), "a child that is being started holds {copy:?}");
    }
}
