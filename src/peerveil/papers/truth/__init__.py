"""Wang and Xu (2020): Algorithm 1 as printed, and Theorems 2 to 4 beside practice."""
