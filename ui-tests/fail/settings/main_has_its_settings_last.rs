kooper::main!(shops, settings = ShopSettings);
