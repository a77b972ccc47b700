//! Loads damaged copies of a package or of a library, and runs those that load.
//!
//! `TVM_FUZZ_FILE` names the file, `TVM_FUZZ_CASES` the number of copies and `TVM_TEST_SEED` their seed. Without a file
//! there is nothing to do. Some copies are damaged anywhere. In others the data of the model is damaged, and the checksums
//! are those of the damaged data. Native code is not damaged below its checksum.

use std::{env, fs, process};

use tvm_classic::{sys, Device, GraphExecutor, Module, Result, Tensor, VirtualMachine};

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn read_u64(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
}

fn checksum(data: &[u8]) -> [u8; 8] {
    unsafe { (sys::functions().unwrap().TVMChecksum)(data.as_ptr().cast(), data.len()) }.to_le_bytes()
}

const BLOCK: usize = 512;

fn octal(field: &[u8]) -> usize {
    usize::from_str_radix(std::str::from_utf8(field).unwrap().trim_matches(['\0', ' '].as_slice()), 8).unwrap()
}

fn headers_of(archive: &[u8]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + BLOCK <= archive.len() && archive[at] != 0 {
        found.push(at);
        at += BLOCK + (octal(&archive[at + 124..at + 136]) + BLOCK - 1) / BLOCK * BLOCK;
    }
    found
}

fn fix_header(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Where the packed model of a library is: a factory of graph executors or an executable.
fn packed_model(library: &[u8]) -> Option<(usize, usize)> {
    ["GraphExecutorFactory", "VMExecutable"].iter().find_map(|key| {
        let head = [&(key.len() as u64).to_le_bytes(), key.as_bytes()].concat();
        let at = library.windows(head.len()).position(|part| part == head)? + head.len();
        Some((at + 8, read_u64(library, at) as usize))
    })
}

fn fix_library(library: &mut [u8], (start, size): (usize, usize)) {
    const TAIL: usize = 16;
    if library[start..].starts_with(b"TVMVMEXE") {
        let words = read_u64(library, start + 24) as usize % size * 8;
        let sum = checksum(&library[start + 24..start + (32 + words).min(size)]);
        library[start + 16..start + 24].copy_from_slice(&sum);
    }
    let end = library.len();
    let sum = checksum(&library[..end - TAIL]);
    library[end - 8..].copy_from_slice(&sum);
}

fn damage(data: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(data.len());
        data[at] = match random.below(4) {
            0 => data[at] ^ 1 << random.below(8),
            1 => b"0123456789[]{},:\"-"[random.below(18)],
            2 => [0, 255][random.below(2)],
            _ => random.below(256) as u8,
        };
    }
}

fn damage_archive(archive: &mut [u8], random: &mut Random) {
    let headers = headers_of(archive);
    let at = headers[random.below(headers.len())];
    let is_library = archive[at..at + 100].windows(3).any(|part| part == b".so");
    if is_library || random.below(2) == 0 {
        damage(&mut archive[at..at + BLOCK], random);
        return fix_header(&mut archive[at..at + BLOCK]);
    }
    let size = octal(&archive[at + 124..at + 136]);
    damage(&mut archive[at + BLOCK..at + BLOCK + size], random);
}

fn damaged(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut copy = whole.to_vec();
    match (random.below(8), packed_model(whole).filter(|_| whole.starts_with(b"\x7fELF"))) {
        (0, _) => copy.truncate(random.below(whole.len())),
        (1, _) => damage(&mut copy, random),
        (_, Some((start, size))) => {
            damage(&mut copy[start..start + size], random);
            fix_library(&mut copy, (start, size));
        }
        (_, None) => damage_archive(&mut copy, random),
    }
    copy
}

/// Damaged instructions may loop forever, so a machine is created and not run.
fn used(model: &Module) -> Result<()> {
    if model.type_key()? == "VMExecutable" {
        return VirtualMachine::new(model, &[Device::cpu()])?.input_names("main").map(drop);
    }
    let mut executor = GraphExecutor::new(model, &[Device::cpu()])?;
    for name in executor.input_names()? {
        let (shape, dtype) = executor.input_type(&name)?;
        executor.set_input(&name, &Tensor::zeros(&shape, dtype, Device::cpu())?)?;
    }
    executor.run()?;
    for i in 0..executor.num_outputs()? {
        executor.output(i)?;
    }
    Ok(())
}

#[test]
fn damaged_files_return_errors() {
    let path = match env::var("TVM_FUZZ_FILE") {
        Ok(path) => path,
        Err(_) => return,
    };
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("TVM_FUZZ_CASES").unwrap_or(200);
    let mut random = Random(88172645463325252 ^ number("TVM_TEST_SEED").unwrap_or(0));
    let whole = fs::read(&path).unwrap();
    let suffix = path.rsplit('.').next().unwrap();
    let copy = env::temp_dir().join(format!("tvm-damaged-{}.{suffix}", process::id()));
    let (mut loaded, mut worked) = (0, 0);
    for case in 0..cases {
        fs::write(&copy, damaged(&whole, &mut random)).unwrap();
        let result = Module::load(&copy).and_then(|model| {
            loaded += 1;
            used(&model)
        });
        match result {
            Ok(()) => worked += 1,
            Err(error) => assert!(!error.message().is_empty(), "case {case}: an error without a text"),
        }
    }
    fs::remove_file(&copy).unwrap();
    let (rejected, failed) = (cases - loaded, loaded - worked);
    println!("{cases} damaged copies: {rejected} were rejected, {failed} failed later, {worked} worked");
    assert!(cases < 200 || (rejected > 0 && loaded > 0));
}
