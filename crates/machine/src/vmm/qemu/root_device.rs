//! Options for the root image as a disk or as persistent memory. QEMU must not write to the image: the disk is a snapshot, and the
//! memory is a private mapping.

use recording::GuestSpec;

use super::escape::escaped;
use crate::Error;
use crate::root::image_bytes;

/// The part of `-m` that reserves room for persistent memory beside the RAM.
pub(crate) fn room(guest: &GuestSpec) -> Result<String, Error> {
    match &guest.root {
        Some(path) if guest.dax => {
            let max_mib = (guest.memory_bytes + image_bytes(path)?).div_ceil(1 << 20);
            Ok(format!(",slots=1,maxmem={max_mib}M"))
        }
        _ => Ok(String::new()),
    }
}

/// The options and their values for the device.
pub(crate) fn device(guest: &GuestSpec) -> Result<Vec<(&'static str, String)>, Error> {
    let Some(path) = &guest.root else { return Ok(Vec::new()) };
    let file = escaped(path)?;
    if guest.dax {
        let bytes = image_bytes(path)?;
        return Ok(vec![
            ("-object", format!("memory-backend-file,id=root,size={bytes},share=off,mem-path={file}")),
            ("-device", "virtio-pmem-pci,memdev=root".to_owned()),
        ]);
    }
    Ok(vec![("-drive", format!("file={file},format=raw,snapshot=on,if=virtio"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_disk_or_memory_and_neither_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("root,1.img");
        let mut bytes = vec![0; 4 << 20];
        bytes[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        std::fs::write(&image, bytes).unwrap();
        let disk = GuestSpec { root: Some(image), ..GuestSpec::default() };
        let path = dir.path().join("root,,1.img");
        let path = path.display();
        assert_eq!(device(&disk).unwrap(), [("-drive", format!("file={path},format=raw,snapshot=on,if=virtio"))]);
        let dax = GuestSpec { dax: true, ..disk };
        let object = format!("memory-backend-file,id=root,size=4194304,share=off,mem-path={path}");
        assert_eq!(device(&dax).unwrap()[0], ("-object", object));
        assert_eq!(room(&dax).unwrap(), ",slots=1,maxmem=516M");
    }
}
