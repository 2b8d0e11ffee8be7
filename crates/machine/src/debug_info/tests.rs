//! Tests on a C program that is compiled here, whose layout the ABI fixes.

use super::*;
use object::ObjectSymbol;
use proptest::prelude::*;
use std::process::Command;
use std::sync::LazyLock;

const SOURCE: &str = "
struct kstat { unsigned long alloc; int lookup; signed char level; unsigned short bits : 3; };
union either { unsigned int word; unsigned char byte[4]; };
struct arena {
    char name[24];
    struct kstat vm_kstat;
    struct { union either u; const volatile long inside; };
    struct arena *next;
    short grid[2][3];
    double rate;
    struct unknown *opaque;
    void *anything;
    enum state { OFF, ON } state;
};
struct arena vmem, *first = &vmem;
static struct arena all[4];
int counter = -5;
int main(void) { return all[counter & 3].vm_kstat.lookup; }
";

fn compiled(more: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (source, image) = (folder.path().join("a.c"), folder.path().join("a"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut command = Command::new("cc");
    let linked = command.args(["-g", "-O0", "-no-pie"]).args(more).arg("-o").arg(&image).arg(&source).status();
    assert!(linked.unwrap().success());
    std::fs::read(&image).unwrap()
}

static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| compiled(&[]));

fn address(image: &[u8], name: &str) -> u64 {
    let elf = object::File::parse(image).unwrap();
    elf.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address()
}

fn place(image: &[u8], text: &str) -> Result<Place, String> {
    let end = text.find(['.', '[', '-']).unwrap_or(text.len());
    let (name, path) = text.split_at(end);
    DebugInfo::of(image).unwrap().unwrap().place(name, address(image, name), path)
}

#[test]
fn fields_lie_where_the_abi_puts_them() {
    let at = |offset, behind: &[u64], bytes, is_signed| Ok(Place { offset, behind: behind.to_vec(), bytes, is_signed });
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let image = compiled(&[version]);
        let place = |text: &str| place(&image, text);
        assert_eq!(place("counter"), at(0, &[], 4, true));
        assert_eq!(place("vmem.vm_kstat.alloc"), at(24, &[], 8, false));
        assert_eq!(place("vmem.vm_kstat.lookup"), at(32, &[], 4, true));
        assert_eq!(place("vmem.vm_kstat.level"), at(36, &[], 1, true));
        assert_eq!(place("vmem.name[3]"), at(3, &[], 1, true));
        assert_eq!(place("vmem.u.byte[2]"), at(42, &[], 1, false), "of an unnamed structure, in a union");
        assert_eq!(place("vmem.inside"), at(48, &[], 8, true), "const and volatile");
        assert_eq!(place("vmem.grid[1][2]"), at(64 + 2 * 5, &[], 2, true));
        assert_eq!(place("vmem.state"), at(104, &[], 4, false));
        assert_eq!(place("vmem.next"), at(56, &[], 8, false), "a pointer is a number too");
        assert_eq!(place("first->vm_kstat.lookup"), at(0, &[32], 4, true));
        assert_eq!(place("vmem.next->next->inside"), at(56, &[56, 48], 8, true));
        assert_eq!(place("all[3].vm_kstat.lookup"), at(3 * 112 + 32, &[], 4, true));
        assert_eq!(place("first[2].inside"), at(0, &[2 * 112 + 48], 8, true));
    }
}

#[test]
fn errors_name_the_problem() {
    for (text, words) in [
        ("vmem.vm_kstat.lookups", &["vmem.vm_kstat has no field lookups", "alloc, lookup"][..]),
        ("vmem", &["vmem is a structure", "name a field", "vm_kstat"]),
        ("vmem->next", &["vmem is no pointer", "write ."]),
        ("first.next", &["first is a pointer: write first->next"]),
        ("counter.x", &["counter is no structure"]),
        ("counter[1]", &["counter is no array"]),
        ("all", &["all is an array", "all[0]"]),
        ("all[4].inside", &["4 elements", "no [4]"]),
        ("vmem.grid[1]", &["vmem.grid[1] is an array", "vmem.grid[1][0]"]),
        ("vmem.grid.x", &["vmem.grid is no structure"]),
        ("vmem.rate", &["vmem.rate is a floating-point"]),
        ("vmem.vm_kstat.bits", &["field of bits"]),
        ("vmem.opaque->x", &["only declared"]),
        ("vmem.anything->x", &["points to void"]),
        ("vmem.", &["no path", ".FIELD, ->FIELD or [NUMBER]"]),
        ("vmem[x]", &["no path"]),
        ("vmem[1", &["no path"]),
        ("vmem.-x", &["no path"]),
    ] {
        let why = place(&IMAGE, text).unwrap_err();
        assert!(words.iter().all(|word| why.contains(word)), "{text}: {why}");
    }
    let info = DebugInfo::of(&**IMAGE).unwrap().unwrap();
    let why = info.place("x", 0x10, ".a").unwrap_err();
    assert!(why.contains("no variable at 0x10") && why.contains("another kernel"), "{why}");
    assert!(info.place("x", 0x10, &".a".repeat(100)).unwrap_err().contains("more than 32 steps"));
}

#[test]
fn an_image_without_or_with_packed_debug_information_says_so() {
    assert!(DebugInfo::of(&*compiled(&["-g0"])).unwrap().is_none());
    assert!(DebugInfo::of(&b"no image"[..]).unwrap_err().contains("no ELF image"));
    let packed = compiled(&["-gz=zlib"]);
    assert!(DebugInfo::of(&*packed).unwrap_err().contains("objcopy --decompress-debug-sections"));
}

#[test]
fn a_name_is_split_at_the_last_place_first() {
    let all_splits = |text| splits(text).collect::<Vec<_>>();
    assert_eq!(all_splits("count.5.a[1]"), [("count.5.a", "[1]"), ("count.5", ".a[1]"), ("count", ".5.a[1]")]);
    assert_eq!(all_splits("a->b"), [("a", "->b")]);
    assert_eq!(all_splits("a::B"), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Damaged debug information gives an answer or a reason, in bounded time.
    #[test]
    fn debug_information_that_was_changed_anywhere_is_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        section in prop::sample::select(vec![".debug_info", ".debug_abbrev", ".debug_str"]),
        text in prop::sample::select(vec!["vmem.vm_kstat.lookup", "first->next->inside", "all[3].grid[1][2]", "vmem"]),
    ) {
        let mut image = IMAGE.clone();
        let range = object::File::parse(&**IMAGE).unwrap().section_by_name(section).unwrap().file_range().unwrap();
        let (start, length) = (range.0 as usize, range.1 as usize);
        for (at, byte) in changes {
            image[start + at.index(length)] = byte;
        }
        let end = text.find(['.', '[', '-']).unwrap_or(text.len());
        let (name, path) = text.split_at(end);
        let place = DebugInfo::of(&*image).and_then(|info| match info {
            Some(info) => info.place(name, address(&IMAGE, name), path),
            None => Err("none".to_owned()),
        });
        if let Ok(place) = place {
            prop_assert!([1, 2, 4, 8].contains(&place.bytes));
        }
    }
}
