//! Opens files that the user or another program named or created. A FIFO waits for its writer and a device may never
//! end, so both are refused before they are read.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The file system of unnamed pipes (linux/magic.h).
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// Opens a regular file for reading, or a pipe that a shell made: `<(…)`.
///
/// # Errors
/// If it cannot be opened or is something else. Never waits.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_if(path, FileType::is_file)
}

/// Opens the image of a disk: a regular file or a block device.
///
/// # Errors
/// If it cannot be opened or is something else. Never waits.
pub fn open_disk(path: &Path) -> io::Result<File> {
    open_if(path, |kind| kind.is_file() || kind.is_block_device())
}

/// Reads all of a regular file, or of a pipe that a shell made.
///
/// # Errors
/// If it cannot be read, is something else, or has more than `max_bytes` bytes.
pub fn read_regular(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let why = format!("it has more than {max_bytes} bytes: check that it is the file that you meant");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// As [`read_regular`], as text.
///
/// # Errors
/// As [`read_regular`], and if it is not UTF-8.
pub fn read_regular_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, max_bytes)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Opens a regular file for reading and for appending. A link is refused: it may lead to another file of the user.
///
/// # Errors
/// If it cannot be opened or is something else. Never waits.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let file_type = fs::symlink_metadata(path)?.file_type();
    if file_type.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link: put the file in its place"));
    }
    if !file_type.is_file() {
        return Err(refusal(file_type));
    }
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits()).map_err(io::Error::other)?;
    let opened = OpenOptions::new().read(true).append(true).custom_flags(flags).open(path)?;
    let kind = opened.metadata()?.file_type();
    if kind.is_file() { Ok(opened) } else { Err(refusal(kind)) }
}

/// Refuses a folder that is a symbolic link, since writes and removals would happen elsewhere.
///
/// # Errors
/// If it is a symbolic link.
pub fn check_no_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(file_type) if file_type.file_type().is_symlink() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link: put the folder in its place"))
        }
        _ => Ok(()),
    }
}

/// Checks that `path`, if it exists, is a regular file, before a library opens it by name.
///
/// # Errors
/// If something else exists there.
pub fn check_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(file_type) if !file_type.is_file() => Err(refusal(file_type.file_type())),
        _ => Ok(()),
    }
}

fn open_if(path: &Path, is_wanted: fn(&FileType) -> bool) -> io::Result<File> {
    let is_accepted = |kind: FileType| is_wanted(&kind) || kind.is_fifo();
    let file_type = fs::metadata(path)?.file_type();
    // Opening a device can have an effect, so a device is not opened.
    if !is_accepted(file_type) {
        return Err(refusal(file_type));
    }
    let flag = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let nonblocking = OpenOptions::new().read(true).custom_flags(flag).open(path)?;
    let opened = nonblocking.metadata()?.file_type();
    if is_wanted(&opened) {
        return Ok(nonblocking);
    }
    if !opened.is_fifo() || !is_unnamed_pipe(&nonblocking) {
        return Err(refusal(opened));
    }
    let flags = fcntl_getfl(&nonblocking)?;
    fcntl_setfl(&nonblocking, flags - OFlags::NONBLOCK)?;
    Ok(nonblocking)
}

/// True for a pipe without a name. Its writer has it open already, since no other can open it later.
fn is_unnamed_pipe(pipe: &File) -> bool {
    fstatfs(pipe).is_ok_and(|system| u64::try_from(system.f_type) == Ok(PIPEFS_MAGIC))
}

fn refusal(kind: FileType) -> io::Error {
    let what = match kind {
        _ if kind.is_dir() => return io::ErrorKind::IsADirectory.into(),
        _ if kind.is_fifo() => "a FIFO: remove it, or name a regular file",
        _ if kind.is_socket() => "a socket: remove it, or name a regular file",
        _ => "a device: name a regular file",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    #[test]
    fn links_are_refused_for_appending_and_as_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("own"), folder.path().join("link"));
        fs::write(&target, "x").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(
            open_to_append(&target).is_ok()
                && check_no_link(&target).is_ok()
                && check_no_link(&folder.path().join("none")).is_ok()
        );
        assert!(open_to_append(&link).unwrap_err().to_string().contains("symbolic link"));
        assert!(check_no_link(&link).unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn fifos_sockets_and_devices_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, socket) = (folder.path().join("fifo"), folder.path().join("socket"));
        mknodat(CWD, &fifo, Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let check_refused = |path: &Path, what: &str| {
            let errors = [open_regular(path).err(), read_regular(path, 10).err(), check_regular(path).err()];
            for error in errors {
                assert!(error.unwrap().to_string().contains(what), "{}", path.display());
            }
        };
        check_refused(&fifo, "a FIFO");
        check_refused(&socket, "a socket");
        check_refused(Path::new("/dev/zero"), "a device");
        check_refused(folder.path(), "directory");
        assert!(open_disk(&fifo).is_err() && open_disk(Path::new("/dev/zero")).is_err());
        assert!(check_regular(&folder.path().join("nothing")).is_ok());
    }

    #[test]
    fn regular_files_and_shell_pipes_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read_regular_text(&path, 4).unwrap(), "text");
        assert!(read_regular(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
        fs::write(&path, b"\xff").unwrap();
        assert!(read_regular_text(&path, 4).is_err());
        // The reader waits for bytes that arrive late.
        let mut command = Command::new("sh");
        let mut writer = command.args(["-c", "sleep 0.1; printf piped"]).stdout(Stdio::piped()).spawn().unwrap();
        let name = format!("/dev/fd/{}", writer.stdout.as_ref().unwrap().as_raw_fd());
        assert_eq!(read_regular(Path::new(&name), 10).unwrap(), b"piped");
        assert!(writer.wait().unwrap().success());
    }
}
