mod histories;
mod model;
mod properties;
mod rows;
