//! A folder of our own for a moment, outside the recording, that nobody else may enter.

use std::io;

use tempfile::TempDir;

/// Makes one where the user's other sockets are. It goes, with all that is in it, when it is dropped.
pub(super) fn socket_folder() -> io::Result<TempDir> {
    let user = xdg::BaseDirectories::new();
    recording::private_folder_in(user.get_runtime_directory().unwrap_or(&std::env::temp_dir()))
}
