//! A temporary folder for sockets, outside the recording, that no other user may enter.

use std::io;

use tempfile::TempDir;

/// Makes the folder beside the user's other sockets. Dropping it removes it with its contents.
pub(super) fn socket_folder() -> io::Result<TempDir> {
    let user = xdg::BaseDirectories::new();
    recording::private_folder_in(user.get_runtime_directory().unwrap_or(&std::env::temp_dir()))
}
