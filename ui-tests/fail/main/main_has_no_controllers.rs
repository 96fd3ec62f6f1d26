kooper::main!();
