mod histories;
mod model;
mod previous;
mod properties;
mod rows;
mod scene;
mod stored;
