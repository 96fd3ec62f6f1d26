mod model;
mod properties;
mod rows;
