//! Recordings on disk: whole, damaged, packed, and on a full disk.

mod folder;
mod full_disk;
mod packed;
